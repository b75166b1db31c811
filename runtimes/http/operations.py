"""The table of the API: every operation with what it takes and gives. The OpenAPI document is made from it."""

from __future__ import annotations

from typing import Any

from attrs import field, frozen

from core.advice import MOST_MOVES
from runtimes.http.bodies import prices, views
from runtimes.http.bodies.jobs import EstimateBody, SubmitBody
from runtimes.http.routes.blobs import Stored
from runtimes.http.routes.models import ModelBody
from runtimes.http.routes.money import BudgetBody
from runtimes.http.routes.nodes import NodeBody
from runtimes.http.routes.uploads import UploadBody

BYTES = "application/octet-stream"
EVENTS = "text/event-stream"


@frozen
class Param:
    """where: "query", "path" or "header". schema: JSON Schema."""

    name: str
    where: str
    schema: dict[str, Any]
    about: str


@frozen
class Answer:
    """body: the class of a JSON body, or the media type of another one, or None. also: other media types."""

    status: int
    about: str
    body: type | str | None = None
    also: tuple[str, ...] = ()


@frozen
class Operation:
    """open: without identity and version gate. refusals: statuses of problems beside 400, 401, 403, 426 and 503."""

    method: str
    path: str
    name: str
    about: str
    answers: tuple[Answer, ...]
    body: type | str | None = None
    params: tuple[Param, ...] = ()
    refusals: tuple[int, ...] = ()
    open: bool = field(default=False)


def _whole(low: int, high: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "default": default}


_LABEL = {"type": "string", "pattern": r"^[^=\x00]{1,64}=[^\x00]{0,63}$"}
_ID = Param("id", "path", {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}, "The job's id.")
_MODEL = Param("name", "path", {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}, "The model's name.")
_KEY = Param("Idempotency-Key", "header", {"type": "string", "pattern": "^[!-~]{1,255}$"}, "Same key and body: same job.")
_LAST = Param("Last-Event-ID", "header", {"type": "string", "pattern": "^[0-9]{1,15}$"}, "Byte offset to go on from.")
_RANGE = Param("Range", "header", {"type": "string", "pattern": "^bytes=[0-9]+-[0-9]*$"}, "One range of bytes.")
_MATCH = Param(
    "If-Match", "header", {"type": "string", "pattern": '^"[0-9]{1,15}"$'}, "The ETag with which the prices were read; it must be sent."
)
_LIST = (
    Param("phase", "query", {"type": "string"}, "Phases, separated by commas."),
    Param("name", "query", {"type": "string", "maxLength": 63}, "Jobs of that name."),
    Param(
        "label",
        "query",
        {"type": "array", "maxItems": 8, "items": _LABEL},
        "key=value; may come more than once.",
    ),
    Param("limit", "query", _whole(1, 1000, 100), "Jobs per page."),
    Param("cursor", "query", {"type": "string", "maxLength": 512}, "The cursor of the page before."),
    Param("user", "query", {"type": "string", "maxLength": 128}, "For admins: jobs of that user."),
)
_LOG = (
    Param("offset", "query", _whole(0, 10**15, 0), "First byte."),
    Param("limit", "query", _whole(1, 8 * 1024 * 1024, 1024 * 1024), "Most bytes."),
    Param("follow", "query", {"type": "boolean", "default": False}, "Stream server-sent events until the job has ended."),
)
_MONTH = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}$"}
_PAGE = (
    Param("after", "query", _whole(0, 10**15, 0), "Postings after this number."),
    Param("limit", "query", _whole(1, 10_000, 1000), "Most postings."),
    Param("month", "query", _MONTH, 'Those of that month of UTC alone, such as "2026-11".'),
)
_ADVICE = (
    Param("job", "query", _ID.schema, "Only for that waiting job."),
    Param("limit", "query", _whole(1, 20, 5), "For so many waiting jobs, oldest first."),
    Param("moves", "query", _whole(0, MOST_MOVES, MOST_MOVES), "Most moves per job."),
)
_WAIT = Param("wait", "query", {"type": "number", "minimum": 0, "maximum": 300, "default": 0}, "Seconds to wait for the end.")

OPERATIONS = (
    Operation(
        "post",
        "/v1/uploads",
        "upload",
        "Announce bytes; learn where to put them, or that they are there.",
        (Answer(200, "They are there, or nothing is to be sent.", views.UploadView), Answer(201, "Put them to `url`.", views.UploadView)),
        UploadBody,
        refusals=(413, 415),
    ),
    Operation(
        "put",
        "/v1/blobs/{key}",
        "putBlob",
        "Put bytes by a granted URL.",
        (Answer(201, "Stored.", Stored),),
        BYTES,
        (Param("key", "path", {"type": "string"}, "As the grant gave it."),),
        (403, 404, 413, 415),
        True,
    ),
    Operation(
        "get",
        "/v1/blobs/{key}",
        "getBlob",
        "Read bytes by a granted URL.",
        (Answer(200, "The bytes.", BYTES), Answer(206, "A range of them.", BYTES), Answer(304, "Unchanged.")),
        None,
        (Param("key", "path", {"type": "string"}, "As the grant gave it."), _RANGE),
        (403, 404, 416),
        True,
    ),
    Operation(
        "post",
        "/v1/jobs/submit",
        "submit",
        "Hand in a function.",
        (Answer(202, "It is queued.", views.SubmittedView),),
        SubmitBody,
        (_KEY,),
        (402, 409, 413, 415, 422),
    ),
    Operation(
        "post",
        "/v1/jobs/estimate",
        "estimate",
        "Dry run: price, hold, and where it would go now.",
        (Answer(200, "The estimate.", views.EstimateView),),
        EstimateBody,
        (),
        (413, 415, 422),
    ),
    Operation("get", "/v1/jobs", "listJobs", "The caller's jobs, newest first.", (Answer(200, "A page.", views.JobList),), None, _LIST),
    Operation(
        "get", "/v1/jobs/{id}/status", "status", "A job's status.", (Answer(200, "The status.", views.JobView),), None, (_ID,), (404,)
    ),
    Operation(
        "get",
        "/v1/jobs/{id}/logs",
        "logs",
        "A job's log: stdout and stderr as on a terminal.",
        (Answer(200, "Bytes from the offset, or events (log, state, end).", BYTES, (EVENTS,)),),
        None,
        (_ID, *_LOG, _LAST),
        (404,),
    ),
    Operation(
        "get",
        "/v1/jobs/{id}/result",
        "result",
        "A job's result.",
        (
            Answer(200, "The result blob.", BYTES),
            Answer(206, "A range of it.", BYTES),
            Answer(304, "Unchanged."),
            Answer(202, "Not ended yet.", views.JobView),
        ),
        None,
        (_ID, _WAIT, _RANGE),
        (404, 409, 416),
    ),
    Operation(
        "post", "/v1/jobs/{id}/cancel", "cancel", "Ask for a job's end.", (Answer(202, "Flagged.", views.JobView),), None, (_ID,), (404,)
    ),
    Operation("get", "/v1/models", "listModels", "The caller's models.", (Answer(200, "The models.", views.Models),)),
    Operation(
        "put",
        "/v1/models/{name}",
        "publishModel",
        "Say which files a model is; its parts are there.",
        (Answer(200, "The model.", views.ModelView),),
        ModelBody,
        (_MODEL,),
        (413, 415),
    ),
    Operation("delete", "/v1/models/{name}", "removeModel", "Remove a model.", (Answer(204, "It is gone."),), None, (_MODEL,), (404,)),
    Operation(
        "post",
        "/v1/models/{name}/parts",
        "modelPart",
        "Announce a part of a model; learn where to put it, or that it is there.",
        (Answer(200, "It is there.", views.UploadView), Answer(201, "Put it to `url`.", views.UploadView)),
        UploadBody,
        (_MODEL,),
        (413, 415),
    ),
    Operation("get", "/v1/resources", "resources", "Every node and GPU.", (Answer(200, "One snapshot.", views.Resources),)),
    Operation("get", "/v1/admin/nodes", "listNodes", "Nodes as admins see them.", (Answer(200, "The nodes.", views.AdminNodes),)),
    Operation(
        "put",
        "/v1/admin/nodes",
        "declareNode",
        "Declare a node's owner, drain it, or declare it gone.",
        (Answer(200, "The node.", views.AdminNodeView),),
        NodeBody,
        refusals=(413, 415),
    ),
    Operation(
        "get",
        "/v1/admin/advice",
        "advice",
        "The fewest moves of movable jobs that would let waiting ones in; none is made.",
        (Answer(200, "Advice by place in the queue.", views.AdviceList),),
        None,
        _ADVICE,
        (404,),
    ),
    Operation(
        "get",
        "/v1/usage",
        "usage",
        "The caller's postings; as CSV by Accept: text/csv.",
        (Answer(200, "Postings.", views.Usage),),
        None,
        _PAGE,
        (406,),
    ),
    Operation(
        "get",
        "/v1/admin/gpu-pricing",
        "gpu_pricing",
        "For admins: rates of org's hardware, and who has changed them.",
        (Answer(200, "The rates.", prices.GpuPricesView),),
    ),
    Operation(
        "put",
        "/v1/admin/gpu-pricing",
        "set_gpu_pricing",
        "For admins: change them, for what is placed from then on.",
        (Answer(200, "The rates.", prices.GpuPricesView),),
        prices.GpuPricingBody,
        (_MATCH,),
        (412, 413, 415, 428),
    ),
    Operation(
        "get",
        "/v1/admin/revenue-splits",
        "revenue_splits",
        "For admins: the platform's shares of rentals and paid calls.",
        (Answer(200, "The shares.", prices.RevenueSplitsView),),
    ),
    Operation(
        "put",
        "/v1/admin/revenue-splits",
        "set_revenue_splits",
        "For admins: change them, for what is placed from then on.",
        (Answer(200, "The shares.", prices.RevenueSplitsView),),
        prices.RevenueSplitsBody,
        (_MATCH,),
        (412, 413, 415, 428),
    ),
    Operation(
        "get",
        "/v1/provider/pricing",
        "provider_pricing",
        "For providers: the rates of one's own hardware.",
        (Answer(200, "The rates.", prices.ProviderPricesView),),
    ),
    Operation(
        "put",
        "/v1/provider/pricing",
        "set_provider_pricing",
        "For providers: change them, for what is placed from then on.",
        (Answer(200, "The rates.", prices.ProviderPricesView),),
        prices.ProviderPricingBody,
        (_MATCH,),
        (412, 413, 415, 428),
    ),
    Operation(
        "get",
        "/v1/statement",
        "statement",
        "A month of the caller's accounts; as CSV by Accept: text/csv.",
        (Answer(200, "Opening, sums by kind, closing.", views.StatementsView, ("text/csv",)),),
        None,
        (Param("month", "query", _MONTH, 'Such as "2026-11", in UTC; it must be given.'),),
        (406,),
    ),
    Operation(
        "get",
        "/v1/admin/health",
        "admin_health",
        "For admins: each dependency, the last rounds, drift, quarantine and arrears.",
        (Answer(200, "How the house is.", views.AdminHealth),),
    ),
    Operation(
        "get",
        "/v1/provider/status",
        "provider_status",
        "For providers: one's own nodes, what runs on them, what they have earned.",
        (Answer(200, "How one's hardware does.", views.ProviderStatus),),
    ),
    Operation(
        "put",
        "/v1/account/budget",
        "set_budget",
        "Bound what the caller spends in a month of UTC.",
        (Answer(200, "The account.", views.AccountView),),
        BudgetBody,
        (),
        (413, 415),
    ),
    Operation("get", "/v1/account", "account", "The caller's balance.", (Answer(200, "The account.", views.AccountView),)),
    Operation("get", "/", "front", "Where to begin.", (Answer(200, "A page.", "text/html"),), open=True),
    Operation("get", "/healthz", "health", "Whether this process answers.", (Answer(200, "It does.", views.Health),), open=True),
    Operation(
        "get",
        "/readyz",
        "ready",
        "Whether new work would run.",
        (Answer(200, "It would.", views.Readiness), Answer(503, "It would not.", views.Readiness)),
        open=True,
    ),
    Operation("get", "/version", "version", "Versions of server and cluster.", (Answer(200, "The versions.", views.Versions),), open=True),
    Operation("get", "/metrics", "metrics", "Metrics for Prometheus.", (Answer(200, "Metrics.", "text/plain"),), open=True),
    Operation("get", "/openapi.json", "openapi", "This document.", (Answer(200, "OpenAPI 3.1.", "application/json"),), open=True),
    Operation("get", "/docs", "docs", "This document for people.", (Answer(200, "A page.", "text/html"),), open=True),
)
