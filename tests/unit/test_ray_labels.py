"""What a node's labels and a demo fleet say, and what they may not say."""

from __future__ import annotations

import pytest

from adapters.ray.labels import DEMO, GPUS, NODE, OWNER, demo_fleet, described, parse_gpus, vendor_of
from ports.errors import Invalid
from ports.nodes import Gpu
from ports.units import Mib


def test_gpus_are_counted_across_groups() -> None:
    """A slot names a GPU by its index: two groups must not share one."""
    expected = (
        Gpu(0, "A100-80GB", "nvidia", Mib(81_920)),
        Gpu(1, "A100-80GB", "nvidia", Mib(81_920)),
        Gpu(2, "MI300X-192GB", "amd", Mib(196_608)),
    )
    assert expected == parse_gpus("2xA100-80GB_1xMI300X-192GB")


@pytest.mark.parametrize(
    "text", ["", "A100", "4xA100", "0xA100-80GB", "4xA100-0GB", "x-1GB", "4xA100-80GB_", "65xL4-24GB", "-1xL4-24GB", "4xA100-80GB;rm"]
)
def test_a_list_of_gpus_that_can_not_be_read_is_refused_with_the_value(text: str) -> None:
    """A node with guessed GPUs would be sold for what it is not."""
    with pytest.raises(Invalid) as refused:
        parse_gpus(text)
    assert (text, GPUS) == (refused.value.value, refused.value.field)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("model", "vendor"),
    [
        ("H200-141GB", "nvidia"),
        ("RTX4090-24GB", "nvidia"),
        ("L40S-48GB", "nvidia"),
        ("MI250X-128GB", "amd"),
        ("Max1550-128GB", "intel"),
        ("Foo-8GB", "unknown"),
    ],
)
def test_the_vendor_follows_from_the_models_family(model: str, vendor: str) -> None:
    """An ask may name a vendor; the labels don't."""
    assert vendor == vendor_of(model)


def test_labels_describe_a_node() -> None:
    """The label names the node, so that it is the same one after its machine got a new host name."""
    node = described({NODE: "a-1", OWNER: "provider.acme", GPUS: "1xL4-24GB"}, "host", alive=True)
    assert ("a-1", True, "provider:acme", parse_gpus("1xL4-24GB"), "") == (node.name, node.alive, node.owner, node.gpus, node.problem)


def test_a_node_without_labels_has_its_host_name_and_must_be_probed() -> None:
    """A real cluster works without anybody labelling it."""
    node = described({}, "Host-7.example", alive=True)
    assert ("host-7.example", "", None, "") == (node.name, node.owner, node.gpus, node.problem)


@pytest.mark.parametrize("labels", [{NODE: "Not A Name"}, {OWNER: "somebody"}, {GPUS: "many"}, {OWNER: "provider."}])
def test_labels_that_can_not_be_read_are_a_problem_not_a_guess(labels: dict[str, str]) -> None:
    """Such a node gets no work, and its operator must learn why."""
    node = described(labels, "host", alive=True)
    (label,) = labels
    assert label in node.problem
    assert (None, "") == (node.gpus, node.owner)


def test_a_demo_fleet_names_its_nodes_after_their_owners() -> None:
    """Names must stay the same from start to start: node records hang on them."""
    fleet = demo_fleet("2x4xA100-80GB:org,1x2xL4-24GB:provider:acme,1x1xL4-24GB:org")
    expected = [("org-1", "org", 4), ("org-2", "org", 4), ("acme-1", "provider:acme", 2), ("org-3", "org", 1)]
    assert expected == [(node.name, node.owner, len(node.gpus or ())) for node in fleet]
    assert all(node.alive and node.labels == {DEMO: "true"} for node in fleet)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "2x4xA100-80GB",
        "0x4xA100-80GB:org",
        "ax4xA100-80GB:org",
        "1x4xA100:org",
        "1x4xA100-80GB:me",
        "101x1xL4-24GB:org",
        "1x1xL4-24GB:org,",
    ],
)
def test_a_demo_fleet_that_can_not_be_read_is_refused(text: str) -> None:
    """It is typed by hand at the first start that anybody does."""
    with pytest.raises(Invalid) as refused:
        demo_fleet(text)
    assert "demo-fleet" == refused.value.field
    assert refused.value.remedy
