"""The world as a whole: open it, found houses in it, and come in as an agent."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from substrate.configuration import load
from substrate.errors import NotAuthenticated, SchemaOutdated
from substrate.settings import Settings
from substrate.world import events as e
from substrate.world import migrate
from substrate.world.append import Writer
from substrate.world.commit import GroupCommit
from substrate.world.credential import Credential, Token
from substrate.world.database import Database
from substrate.world.erasure import Erasing
from substrate.world.hindsight import Hindsight
from substrate.world.ids import new_id
from substrate.world.importing import Importing
from substrate.world.item import Context
from substrate.world.keyed import Keyed
from substrate.world.model import Evidence, Scope
from substrate.world.operator import Operator
from substrate.world.permission import KnownRights
from substrate.world.principal import Engine, Principal, checked
from substrate.world.promotion import Promoting
from substrate.world.reminders import Reminding
from substrate.world.restoring import Restoring
from substrate.world.scopes import Governing, scope_created, scope_draft
from substrate.world.server import EmbeddedServer
from substrate.world.server.cluster import APP
from substrate.world.subscribe import Subscribing
from substrate.world.transfer import Exporting, ImportReport, import_house
from substrate.world.verify import Progress, Verifying


class Agent(
    Restoring, Hindsight, Promoting, Importing, Keyed, Governing, Erasing, Reminding, Verifying, Subscribing, Exporting
):  # fmt: skip
    """An agent, human or bot, with its credential: everything it may do, and nothing else.

    | to learn and to change | `remember`, `remember_many`, `revise`, `reinforce`, `supersede`, `forget`, `restore`, `set_tier` |
    | to relate              | `link`, `unlink`, `links` |
    | to do so to many       | `revise_many`, `link_many`, `unlink_many`, `forget_many` |
    | to keep under keys     | `keep_many`, `list_keyed`, `stamp_keyed`, `key_heads` |
    | to read                | `get`, `get_many`, `get_by_key`, `get_by_keys`, `links_of`, `list`, `rights` |
    | to ask how it came     | `why`, `history` |
    | to look back           | `as_of`, `list_as_of`, `rights_as_of`, `diff` |
    | to share               | `propose_promotion`, `proposals`, `proposal`, `approve_promotion`, `decline_promotion` |
    | to take a source back  | `retract`, `undo_retraction` |
    | to bring in            | `imports`; and `substrate.doors.importing`, which stands on the rest of `Importing` |
    | to go back             | `checkpoints`, `find_checkpoint`, `restore_checkpoint` |
    | to govern              | `create_group`, `create_agent`, `rename`, `move`, `remove`, `configure`, `grant`, `revoke` |
    | to come in             | `issue_token`, `revoke_token`, `tokens` |
    | to be rid of text      | `erase`, `erase_where`, `hold`, `release` |
    | to be told later       | `remind`, `reminders`, `reminder`, `cancel_reminder`, `snooze`, `reschedule`, `inbox`, `mark_read` |
    | to follow              | `subscribe`, `read_stream` |
    | to check and take along | `verify`, `export_house` |
    """

    def within(self, *, session: str | None = None, run: str | None = None, causation: UUID | None = None) -> Agent:
        """The same agent, whose events all say that they come from this session or run."""
        Evidence(session=session, run=run)  # the rules are the same
        base = self._context
        context = Context(base.runtime, session or base.session, run or base.run, causation or base.causation)
        return Agent(self._engine, self._credential, context)


class Founded(NamedTuple):
    """A new house, its owner, and the owner's token, which is shown this once."""

    house: Scope
    owner: Agent
    token: str


class World:
    """A connection to the shared truth. Close it, or use it as a context manager."""

    def __init__(self, engine: Engine, runtime: str | None = None) -> None:
        self._engine = engine
        self._runtime = runtime

    @classmethod
    def open(
        cls,
        *,
        app_url: str | None = None,
        owner_url: str | None = None,
        settings: Settings | None = None,
        runtime: str | None = None,
    ) -> Self:
        """Connect as the application's role, and check that role, durability and schema before anything else.

        Without settings they are loaded, as `substrate.configuration.load` does. Without a URL here or in the settings,
        the embedded server is started (and migrated) and used.
        `runtime` names this process in the provenance of every event it writes.
        """
        settings = settings or load()
        app, owner, embedded = _urls(settings, app_url, owner_url)
        database = Database(app, pool_size=settings.pool_size)
        try:
            database.open(allow_unsafe_durability=settings.allow_unsafe_durability)
        except SchemaOutdated:
            if embedded is None:
                raise
            migrate.upgrade(embedded.owner_url, APP)
            database.open(allow_unsafe_durability=settings.allow_unsafe_durability)
        rights = KnownRights(database)
        writer = Writer(database, rights)
        return cls(Engine(database, writer, GroupCommit(writer), settings, rights, owner), runtime)

    @property
    def database(self) -> Database:
        """The connections, for what builds its indexes on them."""
        return self._engine.database

    @property
    def waiting(self) -> int:
        """How many writes wait for group commit."""
        return self._engine.commits.waiting

    def close(self) -> None:
        self._engine.database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def found_house(self, name: str, owner: str, *, human: bool = True, members: str = "rw") -> Founded:
        """A new house with its first agent, who owns it: rights rwx, on the house and over all that will live in it."""
        house_id, owner_id = new_id(), new_id()
        who = Principal(self._engine, Credential(owner_id, house_id), Context(runtime=self._runtime))
        house_draft, house = scope_draft(
            who, None, scope_created("house", name, None, human=False, members=members), house_id, house_id
        )
        owner_draft, _ = scope_draft(
            who, None, scope_created("agent", owner, house_id, human=human, members="-"), house_id, owner_id
        )
        agent = Agent(self._engine, who._credential, who._context)  # noqa: SLF001 - one family
        grant = agent._event(house_id, house_id, checked(e.GrantChanged, grantee=owner_id, rights=7))  # noqa: SLF001
        token = Token.new()
        issued = agent._event(  # noqa: SLF001
            owner_id, owner_id, checked(e.TokenIssued, token=token.id, rights=7), record={"hash": token.hash.hex()}
        )
        self._engine.writer.govern([house_draft, owner_draft, grant, issued])
        return Founded(house, self.agent(str(token)), str(token))

    def agent(self, token: str) -> Agent:
        """Come in with a token. Raises `NotAuthenticated`, which never says what was wrong with it."""
        parsed = Token.parse(token)
        rows = self._engine.database.rows(
            "SELECT principal_id, house_id FROM authenticate(%s, %s)", (parsed.id, parsed.hash)
        )
        if not rows:
            raise NotAuthenticated("the token is unknown, expired or revoked; ask for a new one")
        principal, house = rows[0]
        return Agent(self._engine, Credential(principal, house, parsed.id), Context(runtime=self._runtime))

    def operator(self) -> Operator:
        """The handle for who runs the system: houses, verification, seals, backups. It reads no text."""
        return Operator(self._engine)

    def import_house(self, path: Path | str, *, on_progress: Progress | None = None) -> ImportReport:
        """Bring in the file of a house that this database does not have: verified before and after, all or nothing."""
        return import_house(self._engine.database, path, on_progress=on_progress)

    def acting(self, who: Credential) -> Agent:
        """An agent with a credential that came in here before. It is judged anew by everything it is used for."""
        return Agent(self._engine, who, Context(runtime=self._runtime))

    def trusted_agent(self, agent: UUID, house: UUID) -> Agent:
        """An agent vouched for by this process, without a token: for runtimes that host agents they authenticated."""
        return Agent(self._engine, Credential(agent, house), Context(runtime=self._runtime))


def _urls(
    settings: Settings, app_url: str | None, owner_url: str | None
) -> tuple[str, str | None, EmbeddedServer | None]:
    """The application's URL, the owner's if it is known, and the embedded server if it is that one."""
    app = app_url or (settings.database_url.get_secret_value() if settings.database_url else None)
    owner = owner_url or (settings.owner_url.get_secret_value() if settings.owner_url else None)
    if app is not None:
        return app, owner, None
    server = EmbeddedServer(settings.home)
    server.start()
    return server.app_url, server.owner_url, server
