"""Everything this package raises, in one tree.

SubstrateError
├── InvalidInput            the caller gave something that cannot be accepted
│   ├── UnknownKind         a kind, category, tier or relation outside the vocabulary
│   └── ContentTooLarge
├── NotFound                it is not there, or not for you: the two are never told apart
├── Denied                  you can see it, and may not do this to it
│   └── NotAuthenticated    the token is missing, unknown, expired or revoked
├── Conflict                somebody was faster, or it is already so
│   ├── StaleMemory         another version than the one you expected
│   ├── IdempotencyConflict the same event id with another payload
│   ├── DuplicateKey        an active memory of that scope has this key
│   └── WrongState          the record's status does not allow this
├── Misconfigured           a setting that cannot be used
│   ├── WrongDimensions     the embedder's vectors are not of the dimensions that are set
│   └── InvalidConfiguration a file or a variable says what is not allowed; all that is wrong is named
├── LimitExceeded           a quota or a rate of writes
├── LegalHold               the text is held and cannot be erased
├── StreamFault             the stream contradicts itself
│   ├── UnknownEvent        an event newer than this code: upgrade
│   └── VerificationFailed
└── Unavailable             something that is needed cannot be used now
    ├── ServerUnavailable   no server could be found or started
    ├── UnsafeServer        a setting or role that would break a promise
    ├── SchemaOutdated      the database is older than the code: migrate
    ├── SchemaTooNew        the database is newer than the code: upgrade
    ├── EmbedderUnavailable no vectors now; full text goes on without them
    │   └── EmbedderRefused the embeddings server answers, and does not want this request
    ├── WorkingMemoryUnavailable  the runtime's working memory cannot be used; recalling and remembering go on
    └── IndexUnavailable    a local index is missing or damaged, and being built anew
        └── NotCaughtUp     the local index did not come to the position in time
"""

from __future__ import annotations

from collections.abc import Sequence

#: Mistakes that one message names.
MOST_SAID = 20


class SubstrateError(Exception):
    """Base of every error of this package; its message says what was wrong and what to do."""

    #: A stable word for machines: doors put it into their answers.
    code = "error"


class InvalidInput(SubstrateError, ValueError):
    """The input cannot be accepted; nothing was written."""

    code = "invalid_input"


class UnknownKind(InvalidInput):
    """A word outside the vocabulary; the message lists what is allowed."""

    code = "unknown_kind"


class ContentTooLarge(InvalidInput):
    """The text is longer than the limit named in the message."""

    code = "content_too_large"


class NotFound(SubstrateError, LookupError):
    """It does not exist, or you may not see it. Both give this same answer."""

    code = "not_found"

    def __init__(self, what: str = "memory", ident: object = None) -> None:
        named = f" {ident}" if ident is not None else ""
        super().__init__(f"no {what}{named} that you can see; check the id and whose credential you are using")


class Denied(SubstrateError, PermissionError):
    """You can see it, and your rights on its scope do not allow this."""

    code = "denied"


class NotAuthenticated(Denied):
    """The token is missing, unknown, expired or revoked."""

    code = "not_authenticated"


class Conflict(SubstrateError):
    """The write would contradict what is already there; nothing was written."""

    code = "conflict"


class StaleMemory(Conflict):
    """The memory is at another version than the one you expected."""

    code = "stale"

    def __init__(self, memory_id: object, expected: int | None, actual: int | None) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(f"memory {memory_id} is at version {actual}, not {expected}; read it again and retry")


class IdempotencyConflict(Conflict):
    """This event id was used before, with another payload."""

    code = "idempotency_conflict"


class DuplicateKey(Conflict):
    """An active memory of that scope already has this key; revise it, or choose another key."""

    code = "duplicate_key"


class WrongState(Conflict):
    """The record's status does not allow this."""

    code = "wrong_state"


class Misconfigured(SubstrateError):
    """A setting is missing or cannot be used; the message names it."""

    code = "misconfigured"


class WrongDimensions(Misconfigured):
    """The embedder's vectors do not have the dimensions that are set: they would be of another space."""

    code = "wrong_dimensions"

    def __init__(self, model: str, expected: int, actual: int) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(
            f"{model} answers with vectors of {actual} dimensions, and SUBSTRATE_EMBEDDING_DIMENSIONS is {expected}"
            f" (vector.embedding.dimensions); set it to {actual}, or set SUBSTRATE_EMBEDDING_MODEL (vector.embedding.model)"
            f" to the model of {expected}"
        )


class InvalidConfiguration(Misconfigured):
    """What is configured cannot be used. `problems` are all that were found, each with its place and what is allowed."""

    code = "invalid_configuration"

    def __init__(self, problems: Sequence[object]) -> None:
        self.problems = tuple(problems)
        said = [str(one) for one in self.problems[:MOST_SAID]]
        more = len(self.problems) - len(said)
        rest = [f"and {more} more, which `substrate config check` lists"] if more else []
        first = [f"{len(self.problems)} mistakes:\n"] if len(self.problems) > 1 else []
        super().__init__("".join(first) + ";\n".join(said + rest))

    def __reduce__(self) -> tuple[type[InvalidConfiguration], tuple[tuple[object, ...]]]:
        return type(self), (self.problems,)


class LimitExceeded(SubstrateError):
    """A quota or a rate of writes set for this agent is used up."""

    code = "limit_exceeded"


class LegalHold(SubstrateError):
    """The text is under legal hold; release the hold before erasing it."""

    code = "legal_hold"


class StreamFault(SubstrateError):
    """The stream contradicts itself or this code."""

    code = "stream_fault"


class UnknownEvent(StreamFault):
    """An event of a type or schema version newer than this code. It is never skipped: upgrade."""

    code = "unknown_event"


class VerificationFailed(StreamFault):
    """What was read does not verify; the message names the positions."""

    code = "verification_failed"


class Unavailable(SubstrateError):
    """The database, or something else that is needed, cannot be used now."""

    code = "unavailable"


class ServerUnavailable(Unavailable):
    """No PostgreSQL server could be found, started or reached."""

    code = "server_unavailable"


class UnsafeServer(Unavailable):
    """A server setting or database role that would break a promise."""

    code = "unsafe_server"


class SchemaOutdated(Unavailable):
    """The database is older than this code; run `substrate migrate`."""

    code = "schema_outdated"


class SchemaTooNew(Unavailable):
    """The database was migrated by a newer version of this code; upgrade this installation."""

    code = "schema_too_new"


class EmbedderUnavailable(Unavailable):
    """No vectors can be had now. Nothing is lost: full text goes on, and missing vectors are filled in later."""

    code = "embedder_unavailable"


class EmbedderRefused(EmbedderUnavailable):
    """The embeddings server answers, and does not want this request; repeating it as it is will not help."""

    code = "embedder_refused"

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class WorkingMemoryUnavailable(Unavailable):
    """The file of a runtime's working memory cannot be used now. Nothing durable is in it: recall and remember go on."""

    code = "working_memory_unavailable"


class IndexUnavailable(Unavailable):
    """A local index cannot be used now. Nothing is lost: it is built anew from the stream."""

    code = "index_unavailable"


class NotCaughtUp(IndexUnavailable):
    """The local index has not come to the position that was asked for, within the time that was given."""

    code = "not_caught_up"
