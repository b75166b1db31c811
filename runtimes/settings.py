"""Every setting of the house: its variable, default, unit and reason. Read once at start, from the environment.

All wrong values are named at once, each with variable, value and remedy. A command-line option outranks the
environment, the environment outranks the demo's own defaults, and those outrank the defaults below.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs
import typed_settings as ts
from cattrs import Converter
from typed_settings.types import LoadedSettings, LoaderMeta, OptionList, Secret

from core.house import EXPOSURE_LIMIT
from core.policies import PlacementPolicy
from core.retention import Retention
from ports.errors import Invalid
from ports.units import Credits, Span
from runtimes import setting_values as read
from runtimes.demo_fleet import FLEET_GRAMMAR, checked_fleet
from runtimes.version import VERSION


class Store(StrEnum):
    SQLITE = "sqlite"
    KUBERNETES = "kubernetes"
    PROXIED = "proxied"


class Blobs(StrEnum):
    FOLDER = "folder"
    S3 = "s3"


class CreditsBackend(StrEnum):
    EMBEDDED = "embedded"
    HTTP = "http"


class Scheduler(StrEnum):
    EMBEDDED = "embedded"
    EXTERNAL = "external"


def _about(reader: read.Reader, why: str) -> dict[str, Any]:
    return {"reader": reader, "why": why}


@attrs.frozen
class Settings:
    """Attribute by attribute what its help says; amounts are in the types of `ports.units`."""

    # the gateway itself
    gateway_port: int = attrs.field(
        default=8200,
        metadata=_about(read.whole(0, 65535, "TCP port; 0: any free one"), "TCP port of the API."),
    )
    gateway_host: str = attrs.field(
        default="",
        metadata=_about(
            read.text("an IP address or host name", r"[0-9A-Za-z.:_-]*"),
            "Address to bind; empty: 0.0.0.0 with PLATFORM_TOKEN, else 127.0.0.1.",
        ),
    )
    gateway_url: str = attrs.field(
        default="",
        metadata=_about(read.optional(read.url()), "Base URL under which nodes reach this gateway for blobs; empty: its own address."),
    )
    workers: int = attrs.field(
        default=1,
        metadata=_about(read.whole(1, 64, "processes"), "Gateway processes; one serves thousands of streams."),
    )
    one_processor: bool = attrs.field(
        default=True,
        metadata=_about(read.switch(), "Whether each gateway process keeps to one processor: its threads are twice as fast there."),
    )
    shutdown_grace_seconds: int = attrs.field(
        default=20,
        metadata=_about(read.seconds(1, 600), "Time to finish open requests after SIGTERM; below the pod's own grace."),
    )
    upload_silence_seconds: int = attrs.field(
        default=45,
        metadata=_about(read.seconds(1, 55), "An upload of which nothing comes for so long is given up (408); a slow one goes on."),
    )
    server_version: str = attrs.field(
        default=VERSION,
        metadata=_about(read.version(), "Version that clients are compared with: another major is refused (426)."),
    )
    cors_origins: tuple[str, ...] = attrs.field(
        default=("*",),
        metadata=_about(read.origins(), "Origins whose pages may call the API from a browser."),
    )
    state_dir: Path = attrs.field(
        default=Path(".gridweave"),
        metadata=_about(read.folder(), "Folder of the embedded database, blobs and journals."),
    )
    # identity
    platform_token: Secret[str] = attrs.field(
        default=Secret(""),
        metadata=_about(read.secret(16), "Secret by which the platform's proxy proves itself; without it: loopback only."),
    )
    admin_token: Secret[str] = attrs.field(
        default=Secret(""),
        metadata=_about(read.secret(16), "Bearer token of administrators; required outside the demo."),
    )
    # which adapters
    store: Store = attrs.field(
        default=Store.SQLITE,
        metadata=_about(read.choice(Store), "Where workloads and node records live."),
    )
    blobs: Blobs = attrs.field(
        default=Blobs.FOLDER,
        metadata=_about(read.choice(Blobs), "Where functions, results and logs live."),
    )
    credits: CreditsBackend = attrs.field(
        default=CreditsBackend.EMBEDDED,
        metadata=_about(read.choice(CreditsBackend), "Which credit service keeps the balances."),
    )
    scheduler: Scheduler = attrs.field(
        default=Scheduler.EMBEDDED,
        metadata=_about(
            read.choice(Scheduler),
            "embedded: the gateway hosts scheduler and biller; external: python -m runtimes.batch does.",
        ),
    )
    probe_port: int = attrs.field(
        default=0,
        metadata=_about(read.whole(0, 65535, "TCP port; 0: none"), "Port of /healthz and /readyz of python -m runtimes.batch schedule."),
    )
    # Ray and Kubernetes
    ray_head_address: str = attrs.field(
        default="auto",
        metadata=_about(read.text("auto or host:port or ray://host:port", r"[!-~]+"), "Ray's head; connected on first use."),
    )
    node_python: str = attrs.field(
        default="",
        metadata=_about(read.text(), "Python interpreter of the embedded Ray's nodes; empty: one is made in STATE_DIR."),
    )
    setup_bound_seconds: int = attrs.field(
        default=600,
        metadata=_about(read.seconds(5, 86_400), "Longest set-up of a run (inputs, environment); never billed."),
    )
    node_lost_seconds: int = attrs.field(
        default=90,
        metadata=_about(read.seconds(1, 86_400), "A node that can't be asked for so long has lost what ran there."),
    )
    jobs_kept_hours: Decimal = attrs.field(
        default=Decimal(168),
        metadata=_about(read.hours(876_000), "Hours after its end that a job stays in the store; then it moves to the archive."),
    )
    placement_policy: PlacementPolicy = attrs.field(
        default=PlacementPolicy.BEST_FIT,
        metadata=_about(
            read.choice(PlacementPolicy),
            "Which GPU an ask for one gets; balance and residual_value learn from what is asked, and are best_fit until they have.",
        ),
    )
    kuberay_service_url: str = attrs.field(
        default="http://localhost:8800",
        metadata=_about(read.url(), "Control service for RayJobs and worker groups."),
    )
    raycluster_name: str = attrs.field(
        default="gridweave",
        metadata=_about(read.dns_label(), "RayCluster whose worker groups are ours."),
    )
    kuberay_namespace: str = attrs.field(
        default="gridweave",
        metadata=_about(read.dns_label(), "Namespace of our Kubernetes objects."),
    )
    lease_seconds: int = attrs.field(
        default=15,
        metadata=_about(read.seconds(3, 3600), "A scheduler that is not heard of for so long is replaced, with STORE=kubernetes."),
    )
    ray_serve_port: int = attrs.field(
        default=8000,
        metadata=_about(read.whole(1, 65535, "TCP port"), "Port of Ray Serve's proxy, for endpoints."),
    )
    proxy_image: str = attrs.field(
        default="",
        metadata=_about(read.text("an image reference", r"[!-~]*"), "Image of an endpoint's proxy; empty: the cluster's own."),
    )
    model_cache_dir: Path = attrs.field(
        default=Path("/data/model-cache/s3"),
        metadata=_about(read.folder(), "Folder on nodes where models are cached."),
    )
    # money
    credits_enabled: bool = attrs.field(
        default=False,
        metadata=_about(read.switch(), "Whether anything is held or charged."),
    )
    credit_service_url: str = attrs.field(
        default="http://localhost:8300",
        metadata=_about(read.url(), "Credit service, with CREDITS=http."),
    )
    metering_url: str = attrs.field(
        default="http://localhost:8400",
        metadata=_about(read.url(), "Receiver of usage events."),
    )
    base_rate: Decimal = attrs.field(
        default=Decimal(0),
        metadata=_about(read.credit_amount(), "Credits per hour of any run on org hardware."),
    )
    vram_rate: Decimal = attrs.field(
        default=Decimal(1),
        metadata=_about(read.credit_amount(), "Credits per GB of VRAM and hour on org hardware."),
    )
    billing_tick_seconds: int = attrs.field(
        default=60,
        metadata=_about(read.seconds(1, 86_400), "The longest time that can stay unbilled."),
    )
    preflight_hours: Decimal = attrs.field(
        default=Decimal(1),
        metadata=_about(read.hours(8760), "Hours of the dearest rate that are held while a job lives."),
    )
    exposure_limit: Decimal = attrs.field(
        default=Decimal(EXPOSURE_LIMIT.micro) / 1_000_000,
        metadata=_about(
            read.or_else(read.credit_amount(), Decimal(EXPOSURE_LIMIT.micro) / 1_000_000),
            "Credits that a user may have run up uncharged while new work of his is still taken; empty: the default.",
        ),
    )
    max_price_per_call: Decimal = attrs.field(
        default=Decimal(0),
        metadata=_about(read.credit_amount(), "Cap in credits of an endpoint's price per call; 0: none."),
    )
    # S3
    s3_endpoint: str = attrs.field(
        default="http://localhost:9000",
        metadata=_about(read.url(), "S3 service, with BLOBS=s3."),
    )
    s3_access_key: Secret[str] = attrs.field(
        default=Secret("minioadmin"),
        metadata=_about(read.optional(read.secret(1)), "Access key of S3; with both keys empty the default chain of AWS finds some."),
    )
    s3_secret_key: Secret[str] = attrs.field(
        default=Secret("minioadmin"),
        metadata=_about(read.optional(read.secret(1)), "Secret key of S3; see S3_ACCESS_KEY."),
    )
    s3_bucket: str = attrs.field(
        default="gridweave",
        metadata=_about(read.text("a bucket name", r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"), "Bucket of all blobs."),
    )
    # results and logs
    log_chunk_bytes: int = attrs.field(
        default=1024 * 1024,
        metadata=_about(read.whole(1024, 1024**3, "bytes"), "A chunk of a log is closed and stored at this size."),
    )
    log_chunk_age_seconds: int = attrs.field(
        default=2,
        metadata=_about(read.seconds(1, 3600), "Or at this age, whichever comes first: what a node that dies takes along."),
    )
    max_result_mib: int = attrs.field(
        default=4096,
        metadata=_about(read.whole(1, 5120, "MiB"), "Largest result; one upload of S3 takes no more than 5 GiB."),
    )
    result_pending_seconds: int = attrs.field(
        default=86_400,
        metadata=_about(read.seconds(1, 30 * 86_400), "A result that can't be stored for so long is given up, and its job has failed."),
    )
    grant_life_seconds: int = attrs.field(
        default=3600,
        metadata=_about(read.seconds(2, 86_400), "How long a permission to up- or download works; a run's is renewed at half of it."),
    )
    keep_completed_days: int = attrs.field(
        default=30,
        metadata=_about(read.whole(0, 3650, "days; 0: for ever"), "How long results, logs and inputs of completed jobs are kept."),
    )
    keep_failed_days: int = attrs.field(
        default=90,
        metadata=_about(read.whole(0, 3650, "days; 0: for ever"), "And those of failed ones, and every manifest and diagnosis."),
    )
    # not of the environment
    demo_fleet: str = attrs.field(
        default="",
        metadata=_about(read.Reader(FLEET_GRAMMAR, checked_fleet), "Imaginary fleet of the local demo; set by --demo-fleet."),
    )

    @property
    def shutdown_grace(self) -> Span:
        return Span.of(seconds=self.shutdown_grace_seconds)

    @property
    def setup_bound(self) -> Span:
        return Span.of(seconds=self.setup_bound_seconds)

    @property
    def node_lost(self) -> Span:
        return Span.of(seconds=self.node_lost_seconds)

    @property
    def lease(self) -> Span:
        return Span.of(seconds=self.lease_seconds)

    @property
    def billing_tick(self) -> Span:
        return Span.of(seconds=self.billing_tick_seconds)

    @property
    def log_chunk_age(self) -> Span:
        return Span.of(seconds=self.log_chunk_age_seconds)

    @property
    def max_result(self) -> int:
        """In bytes."""
        return self.max_result_mib * 1024 * 1024

    @property
    def result_pending(self) -> Span:
        return Span.of(seconds=self.result_pending_seconds)

    @property
    def grant_life(self) -> Span:
        return Span.of(seconds=self.grant_life_seconds)

    @property
    def retention(self) -> Retention:
        return Retention(completed=_days(self.keep_completed_days), failed=_days(self.keep_failed_days))

    @property
    def preflight(self) -> Span:
        """A part of a millisecond counts as a whole one."""
        return Span(-int(-self.preflight_hours * 3_600_000 // 1))

    @property
    def jobs_kept(self) -> Span:
        """A part of a millisecond counts as a whole one."""
        return Span(-int(-self.jobs_kept_hours * 3_600_000 // 1))

    @property
    def base_credits(self) -> Credits:
        """BASE_RATE, per hour."""
        return Credits.parse(f"{self.base_rate:f}")

    @property
    def vram_credits(self) -> Credits:
        """VRAM_RATE, per GB and hour."""
        return Credits.parse(f"{self.vram_rate:f}")

    @property
    def exposure(self) -> Credits:
        return Credits.parse(f"{self.exposure_limit:f}")

    @property
    def demo(self) -> bool:
        """Whether this is the local demo: imaginary GPUs, a default user, no secrets needed."""
        return bool(self.demo_fleet)

    @property
    def host(self) -> str:
        """The address to bind: without the platform's secret nobody but this machine may connect."""
        return self.gateway_host or ("0.0.0.0" if self.platform_token else "127.0.0.1")  # noqa: S104 - identity is proven by PLATFORM_TOKEN


def variable(attribute: attrs.Attribute[Any]) -> str:
    """The environment variable of a setting: its name in capitals."""
    return attribute.name.upper()


DEMO_DEFAULTS = {"CREDITS_ENABLED": "true"}


class WrongSettingsError(Exception):
    """Every setting that is wrong, each an Invalid with variable, value and remedy."""

    def __init__(self, wrong: Sequence[Invalid]) -> None:
        self.wrong = tuple(wrong)
        lines = (f"  {each.message} {each.remedy}" for each in self.wrong)
        super().__init__("\n".join([f"{len(self.wrong)} setting(s) cannot be used:", *lines]))


@attrs.frozen
class Loaded:
    """The settings, and where each variable's value came from. wrong: what is the matter with them, each an Invalid whose
    field is the variable; a value that can't be read is replaced by its default."""

    settings: Settings
    sources: dict[str, str]
    wrong: tuple[Invalid, ...] = ()


def load(environment: Mapping[str, str], options: Mapping[str, str] | None = None) -> Loaded:
    """Read all settings. `options`: variable -> text, from the command line. Raises WrongSettingsError."""
    loaded = inspect(environment, options)
    if loaded.wrong:
        raise WrongSettingsError(loaded.wrong)
    return loaded


def inspect(environment: Mapping[str, str], options: Mapping[str, str] | None = None) -> Loaded:
    """The same for whoever only wants to see them: what is wrong is said, not raised."""
    given = options or {}
    demo = DEMO_DEFAULTS if "DEMO_FLEET" in given or "DEMO_FLEET" in environment else {}
    check = _Check()
    converter = Converter()
    converter.register_structure_hook_func(lambda kind: True, _as_read)  # the readers below have done it
    loaders = [_Given("demo", demo), _Given("environment", environment), _Given("command line", given)]
    settings = ts.load_settings(Settings, loaders, processors=[check], converter=converter)
    broken = {error.field for error in check.wrong}
    wrong = [*check.wrong, *(error for error in contradictions(settings) if not broken & {error.field, _BASED_ON.get(error.field)})]
    return Loaded(settings, check.sources, tuple(wrong))


_BASED_ON = {"ADMIN_TOKEN": "DEMO_FLEET", "GATEWAY_HOST": "PLATFORM_TOKEN"}  # what is wrong there would be blamed here too


def contradictions(settings: Settings) -> Iterator[Invalid]:
    """What is wrong between settings that are each right."""
    if not settings.admin_token and not settings.demo:
        yield Invalid("ADMIN_TOKEN is not set.", "ADMIN_TOKEN", "Set it to at least 16 random characters, or start with --demo-fleet.")
    if not settings.platform_token and not _loopback(settings.host):
        message = f"GATEWAY_HOST is {settings.host!r}, but without PLATFORM_TOKEN anybody there could say who he is."
        yield Invalid(message, "GATEWAY_HOST", "Set PLATFORM_TOKEN, or bind to 127.0.0.1.", settings.host)
    if settings.platform_token and settings.platform_token.get_secret_value() == settings.admin_token.get_secret_value():
        yield Invalid("PLATFORM_TOKEN and ADMIN_TOKEN are the same.", "ADMIN_TOKEN", "Set them to different secrets.", "(hidden)")
    if settings.keep_failed_days and (settings.keep_completed_days > settings.keep_failed_days or not settings.keep_completed_days):
        message = f"KEEP_FAILED_DAYS is {settings.keep_failed_days}: what failed would be forgotten before what went well."
        remedy = "Set it to KEEP_COMPLETED_DAYS or more, or to 0."
        yield Invalid(message, "KEEP_FAILED_DAYS", remedy, str(settings.keep_failed_days))
    if bool(settings.s3_access_key) != bool(settings.s3_secret_key):
        missing = "S3_SECRET_KEY" if settings.s3_access_key else "S3_ACCESS_KEY"
        yield Invalid(f"{missing} is empty, and the other key of S3 is not.", missing, "Set both, or leave both empty.", "(hidden)")
    if settings.scheduler is Scheduler.EMBEDDED and settings.store is not Store.SQLITE:
        message = f"SCHEDULER is embedded, but STORE is {settings.store.value}."
        yield Invalid(message, "SCHEDULER", "Set SCHEDULER=external and run python -m runtimes.batch schedule.", settings.scheduler.value)


def _days(number: int) -> Span | None:
    """None: for ever."""
    return Span.of(hours=24 * number) if number else None


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _as_read(value: Any, kind: type) -> Any:
    return kind(**value) if kind is Settings else value


@attrs.frozen
class _Raw:
    """Text as it was given, not yet read."""

    text: str
    source: str


@attrs.frozen
class _Given:
    """A typed-settings loader: variables by name, from one source."""

    source: str
    values: Mapping[str, str]

    def __call__(self, settings_cls: type, options: OptionList) -> LoadedSettings:
        found: dict[str, Any] = {}
        for each in attrs.fields(settings_cls):
            text = self.values.get(variable(each))
            if text is not None:
                found[each.name] = _Raw(text, self.source)
        return LoadedSettings(found, LoaderMeta(self.source))


class _Check:
    """A typed-settings processor: reads every given text, and gathers what is wrong instead of stopping at the first."""

    def __init__(self) -> None:
        self.wrong: list[Invalid] = []
        self.sources: dict[str, str] = {}

    def __call__(self, settings_dict: dict[str, Any], settings_cls: type, options: OptionList) -> dict[str, Any]:
        for each in attrs.fields(settings_cls):
            name, value = variable(each), settings_dict[each.name]
            self.sources[name] = value.source if isinstance(value, _Raw) else "default"
            if isinstance(value, _Raw):
                settings_dict[each.name] = self._read(each, name, value.text)
        return settings_dict

    def _read(self, about: attrs.Attribute[Any], name: str, text: str) -> Any:
        hidden = isinstance(about.default, Secret)
        try:
            value = read.parse(name, text, about.metadata["reader"], hidden=hidden)
        except Invalid as error:
            self.wrong.append(error)
            return about.default
        return Secret(value) if hidden else value
