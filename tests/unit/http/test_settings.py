"""Settings: read once, all wrong ones named at once, secrets never shown."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from rich.console import Console

from ports.errors import Invalid
from ports.units import Credits, Span
from runtimes import settings_table
from runtimes.settings import Settings, Store, WrongSettingsError, inspect, load
from runtimes.version import VERSION

TOKEN = "a-token-of-an-admin-42"
NEEDED = {"ADMIN_TOKEN": TOKEN}


def wrong(environment: dict[str, str], **options: str) -> dict[str, Invalid]:
    with pytest.raises(WrongSettingsError) as caught:
        load(environment, options)
    return {each.field: each for each in caught.value.wrong}


def test_defaults_are_those_that_the_papers_promise() -> None:
    """An operator who sets nothing but the secret gets exactly the documented house."""
    found = load(NEEDED).settings
    assert (8200, "auto", "http://localhost:8800", "gridweave") == (
        found.gateway_port,
        found.ray_head_address,
        found.kuberay_service_url,
        found.kuberay_namespace,
    )
    assert (False, Credits(0), Credits(1_000_000), Credits(0)) == (
        found.credits_enabled,
        found.base_credits,
        found.vram_credits,
        Credits.parse(str(found.max_price_per_call)),
    )
    assert (Span.of(seconds=60), Span.of(hours=1)) == (found.billing_tick, found.preflight)
    assert (Path("/data/model-cache/s3"), VERSION, ("*",)) == (found.model_cache_dir, found.server_version, found.cors_origins)
    assert Store.SQLITE is found.store


def test_values_become_exact_types() -> None:
    """Money and time must not pass through a float on their way in."""
    found = load(
        NEEDED
        | {
            "VRAM_RATE": "0.1",
            "PREFLIGHT_HOURS": "0.5",
            "CREDITS_ENABLED": "Yes",
            "CORS_ORIGINS": "https://a.example, https://b.example",
        }
    ).settings
    assert Credits(100_000) == found.vram_credits
    assert Span(1_800_000) == found.preflight
    assert found.credits_enabled
    assert ("https://a.example", "https://b.example") == found.cors_origins


@pytest.mark.parametrize(
    ("given", "credits"), [({}, 100), ({"EXPOSURE_LIMIT": ""}, 100), ({"EXPOSURE_LIMIT": "0"}, 0), ({"EXPOSURE_LIMIT": "7"}, 7)]
)
def test_a_limit_of_zero_is_zero_and_none_is_the_default(given: dict[str, str], credits: int) -> None:
    """A zero that was given is a zero."""
    assert Credits(credits * 1_000_000) == load(NEEDED | given).settings.exposure


def test_all_wrong_settings_are_named_at_once_with_value_and_remedy() -> None:
    """An operator who fixes one error per start would need ten starts."""
    bad = {
        "GATEWAY_PORT": "eight",
        "VRAM_RATE": "-1",
        "PREFLIGHT_HOURS": "NaN",
        "EXPOSURE_LIMIT": "-1",
        "CREDITS_ENABLED": "maybe",
        "STORE": "oracle",
        "SERVER_VERSION": "one",
        "KUBERAY_SERVICE_URL": "localhost:8800",
        "BILLING_TICK_SECONDS": "0",
        "RAYCLUSTER_NAME": "Upper",
        "CORS_ORIGINS": "example.org",
        "S3_BUCKET": "_",
        "DEMO_FLEET": "two nodes",
    }
    found = wrong(bad)
    assert set(bad) == set(found)
    for name, value in bad.items():
        assert value in found[name].message
        assert found[name].remedy.startswith("Set it to ")


@pytest.mark.parametrize("name", ["PLATFORM_TOKEN", "ADMIN_TOKEN"])
def test_a_wrong_secret_is_named_without_its_value(name: str) -> None:
    """The start's error message ends in logs."""
    found = wrong(NEEDED | {name: "hunter2"})
    assert name in found
    assert all("hunter2" not in f"{each.message} {each.remedy} {each.value} {each!r}" for each in found.values())
    assert found[name].__cause__ is None


def test_an_admin_token_is_required_outside_the_demo_only() -> None:
    """Without it nobody could drain a node; in the demo everybody would stumble over it."""
    assert {"ADMIN_TOKEN"} == set(wrong({}))
    assert load({}, {"DEMO_FLEET": "1x1xL4-24GB:org"}).settings.demo


def test_without_the_platforms_secret_only_this_machine_may_connect() -> None:
    """Identity headers would otherwise be anybody's to send."""
    assert "127.0.0.1" == load(NEEDED).settings.host
    assert {"GATEWAY_HOST"} == set(wrong(NEEDED | {"GATEWAY_HOST": "192.0.2.1"}))
    proven = NEEDED | {"PLATFORM_TOKEN": "x" * 32}
    assert "0.0.0.0" == load(proven).settings.host  # noqa: S104 - nothing is bound
    assert "10.0.0.5" == load(proven | {"GATEWAY_HOST": "10.0.0.5"}).settings.host


def test_the_two_secrets_must_differ() -> None:
    """A proxy that can prove itself is not therefore an administrator."""
    assert {"ADMIN_TOKEN"} == set(wrong(NEEDED | {"PLATFORM_TOKEN": TOKEN}))


def test_an_option_outranks_the_environment_and_that_the_demo() -> None:
    """What was typed last is what was meant."""
    found = load({"DEMO_FLEET": "1x1xL4-24GB:org", "GATEWAY_PORT": "9000", "CREDITS_ENABLED": "false"}, {"GATEWAY_PORT": "0"})
    assert (0, False) == (found.settings.gateway_port, found.settings.credits_enabled)
    assert ("command line", "environment", "default") == tuple(
        found.sources[name] for name in ("GATEWAY_PORT", "CREDITS_ENABLED", "WORKERS")
    )
    assert "demo" == load({}, {"DEMO_FLEET": "1x1xL4-24GB:org"}).sources["CREDITS_ENABLED"]


def test_the_table_shows_every_setting_and_no_secret() -> None:
    """`--print-settings` is what operators paste into tickets."""
    loaded = load(NEEDED | {"S3_SECRET_KEY": "s3-secret-of-ours"})
    rows = {row["name"]: row for row in json.loads(settings_table.as_json(loaded))}
    assert {each.name.upper() for each in attrs.fields(Settings)} == set(rows)
    assert all(row["meaning"] for row in rows.values())
    assert ("********", "environment") == (rows["ADMIN_TOKEN"]["value"], rows["ADMIN_TOKEN"]["source"])
    console = Console(width=200, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    settings_table.as_table(loaded, console)
    shown = console.export_text() + settings_table.as_json(loaded) + repr(loaded)
    console.file.close()
    assert "s3-secret-of-ours" not in shown
    assert TOKEN not in shown


def test_settings_are_shown_whole_with_what_is_wrong() -> None:
    """Whoever does not know yet what to set asks for exactly that."""
    loaded = inspect({"GATEWAY_PORT": "x", "PLATFORM_TOKEN": "short"})
    assert {"ADMIN_TOKEN", "GATEWAY_PORT", "PLATFORM_TOKEN"} == {each.field for each in loaded.wrong}
    found = {row["name"]: row for row in settings_table.rows(loaded)}
    assert ("x", "environment") == (found["GATEWAY_PORT"]["value"], found["GATEWAY_PORT"]["source"])
    assert "ADMIN_TOKEN is not set" in found["ADMIN_TOKEN"]["problem"]
    assert "" == found["WORKERS"]["problem"]
    assert "short" not in settings_table.as_json(loaded) + settings_table.as_text(loaded)


def test_a_pipe_gets_a_line_per_setting() -> None:
    """`grep` must find name, value and meaning together, however long a path is."""
    long = "/" + "x" * 300
    lines = settings_table.as_text(inspect({"STATE_DIR": long})).splitlines()
    assert len(attrs.fields(Settings)) + 1 == len(lines)
    (line,) = [each for each in lines if each.startswith("STATE_DIR")]
    assert long in line
    assert "Folder of the embedded database" in line
    assert not any(each.endswith(" ") for each in lines)
