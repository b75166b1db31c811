"""What every credit service keeps to: money is never made, lost or taken twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve

from adapters.remote.credits import RemoteCredits, line_to_credits
from adapters.sqlite.credits import SqliteCredits
from adapters.sqlite.schema import open_credits
from ports.credits import ISSUE, PLATFORM, Account, Charge, ChargeState, CreditService, Entry, HoldAnswer, HoldState, OperatedCredits
from ports.errors import Invalid, KeyReused, Refused, Unavailable
from ports.months import Month
from ports.units import Credits, Instant, Span
from tests.contract import races
from tests.contract.credits_process import TOKEN, CreditsProcess
from tests.contract.races import in_processes, in_threads
from tests.contract.samples import a_charge
from tests.memory.clock import ManualClock
from tests.memory.credits import MemoryCredits

ALICE = "user:alice"


def grant(credit: CreditService, micro: int, to: str = ALICE, key: str = "grant-1") -> bool:
    return credit.post(key, "grant", {ISSUE: Credits(-micro), to: Credits(micro)})


def charged(credit: CreditService, *charges: Charge) -> list[tuple[str, int, int]]:
    """State, balance and charged total of each answer."""
    return [(answer.state.value, answer.balance.micro, answer.charged.micro) for answer in credit.charge(charges)]


def balances(credit: CreditService, *names: str) -> list[int]:
    return [credit.account(name).balance.micro for name in names]


class CreditsContract:
    """Give a fixture `credit`: an empty service."""

    # ------------------------------------------------------------ accounts and postings

    def test_an_account_never_heard_of_is_empty(self, credit: OperatedCredits) -> None:
        """A user's first look at his balance comes before his first credit."""
        assert Account(ALICE, Credits(0), Credits(0), "") == credit.account(ALICE)

    def test_the_operator_tells_plans(self, credit: OperatedCredits) -> None:
        """A plan stands by itself: it moves no money, and money does not move it."""
        assert "paid" == credit.set_plan("alice", "paid").plan
        grant(credit, 5)
        credit.set_plan("alice", "free")
        assert Account(ALICE, Credits(5), Credits(0), "free") == credit.account(ALICE)
        assert "" == credit.account("user:bob").plan

    def test_a_posting_moves_credits(self, credit: OperatedCredits) -> None:
        """What goes into one account comes out of another."""
        assert grant(credit, 100)
        assert [100, -100] == balances(credit, ALICE, ISSUE)

    def test_a_key_is_posted_once(self, credit: OperatedCredits) -> None:
        """An admin's click that timed out and was repeated grants once."""
        assert [True, False, False] == [grant(credit, 100), grant(credit, 100), grant(credit, 7)]
        assert [100] == balances(credit, ALICE)

    @pytest.mark.parametrize("lines", [{}, {ALICE: Credits(1)}, {ALICE: Credits(5), ISSUE: Credits(-6)}])
    def test_lines_that_do_not_sum_to_zero_are_refused(self, credit: OperatedCredits, lines: dict[str, Credits]) -> None:
        """Credits come from nowhere only by a bug; the key stays free for the right posting."""
        with pytest.raises(Refused):
            credit.post("grant-1", "grant", lines)
        assert () == credit.journal(ALICE)
        assert grant(credit, 1)

    @pytest.mark.parametrize(("key", "kind"), [("k", "charge"), ("", "grant"), ("k", "")])
    def test_a_posting_that_could_pass_for_a_charge_is_refused(self, credit: OperatedCredits, key: str, kind: str) -> None:
        """Totals of runs are proved from the postings of charges alone."""
        with pytest.raises(Refused):
            credit.post(key, kind, {ISSUE: Credits(-1), ALICE: Credits(1)})

    # ------------------------------------------------------------ holds

    def test_a_hold_is_given_if_the_balance_covers_it(self, credit: OperatedCredits) -> None:
        """To the last micro-credit, and it is not a debit."""
        grant(credit, 100)
        assert HoldAnswer(HoldState.OPEN, Credits(100), Credits(100)) == credit.authorise("h1", ALICE, Credits(100))
        assert Account(ALICE, Credits(100), Credits(100)) == credit.account(ALICE)

    def test_open_holds_count(self, credit: OperatedCredits) -> None:
        """Two jobs can't both be covered by the same credits."""
        grant(credit, 100)
        credit.authorise("h1", ALICE, Credits(60))
        assert HoldAnswer(HoldState.REFUSED, Credits(41), Credits(40)) == credit.authorise("h2", ALICE, Credits(41))
        assert HoldAnswer(HoldState.OPEN, Credits(40), Credits(40)) == credit.authorise("h3", ALICE, Credits(40))

    def test_a_refusal_is_not_remembered(self, credit: OperatedCredits) -> None:
        """The user tops up and submits again."""
        assert HoldState.REFUSED is credit.authorise("h1", ALICE, Credits(1)).state
        grant(credit, 1)
        assert HoldState.OPEN is credit.authorise("h1", ALICE, Credits(1)).state

    def test_the_same_key_is_the_same_hold(self, credit: OperatedCredits) -> None:
        """An authorise whose answer was lost is asked again, also when the balance is gone meanwhile."""
        grant(credit, 100)
        first = credit.authorise("h1", ALICE, Credits(60))
        charged(credit, a_charge(1, org=90))
        assert [first, first] == [credit.authorise("h1", ALICE, Credits(60)) for _ in range(2)]
        assert 60 == credit.account(ALICE).held.micro

    def test_a_key_holds_for_one_account(self, credit: OperatedCredits) -> None:
        """Nobody's job is covered by another's credits."""
        grant(credit, 100)
        credit.authorise("h1", ALICE, Credits(60))
        with pytest.raises(KeyReused):
            credit.authorise("h1", "user:bob", Credits(60))
        assert 0 == credit.account("user:bob").held.micro

    def test_a_voided_hold_is_given_back_once(self, credit: OperatedCredits) -> None:
        """Doing it twice is doing it once, and no other hold is touched."""
        grant(credit, 100)
        credit.authorise("h1", ALICE, Credits(60))
        credit.authorise("h2", ALICE, Credits(30))
        credit.void("h1")
        credit.void("h1")
        assert Account(ALICE, Credits(100), Credits(30)) == credit.account(ALICE)

    @pytest.mark.parametrize("opened", [True, False])
    def test_a_void_bars_a_later_authorise(self, credit: OperatedCredits, opened: bool) -> None:
        """A gateway that was paused must not hold credits for a job that is long gone, also if its hold was never seen."""
        grant(credit, 100)
        if opened:
            credit.authorise("h1", ALICE, Credits(60))
        credit.void("h1")
        assert HoldAnswer(HoldState.CLOSED, Credits(60), Credits(100)) == credit.authorise("h1", ALICE, Credits(60))
        assert 0 == credit.account(ALICE).held.micro

    def test_a_zero_hold_needs_nothing(self, credit: OperatedCredits) -> None:
        """A rate of zero that was given is a zero; only a debt stands against it."""
        assert HoldState.OPEN is credit.authorise("h1", ALICE, Credits(0)).state
        charged(credit, a_charge(1, org=1))
        assert HoldState.REFUSED is credit.authorise("h2", ALICE, Credits(0)).state

    def test_a_hold_below_zero_is_refused(self, credit: OperatedCredits) -> None:
        """It would make room for another."""
        with pytest.raises(Invalid, match="hold"):
            credit.authorise("h1", ALICE, Credits(-1))

    # ------------------------------------------------------------ captures

    def test_a_capture_posts_and_gives_the_hold_back_in_one_step(self, credit: OperatedCredits) -> None:
        """A paid call costs at most what was held for it, and nothing stays behind."""
        grant(credit, 100)
        credit.authorise("c1", ALICE, Credits(60))
        assert credit.capture("c1", "call", {ALICE: Credits(-40), "user:bob": Credits(36), PLATFORM: Credits(4)}, "model-1")
        assert Account(ALICE, Credits(60), Credits(0), spent=Credits(40)) == credit.account(ALICE)
        assert [36, 4] == balances(credit, "user:bob", PLATFORM)
        (line,) = credit.journal(PLATFORM)
        assert ("call", "c1", "model-1") == (line.kind, line.key, line.memo)

    def test_a_capture_that_comes_again_captures_nothing(self, credit: OperatedCredits) -> None:
        """An answer that was lost is asked for again; a void that comes too late takes nothing back."""
        grant(credit, 100)
        credit.authorise("c1", ALICE, Credits(60))
        lines = {ALICE: Credits(-40), PLATFORM: Credits(40)}
        assert [True, False] == [credit.capture("c1", "call", lines), credit.capture("c1", "call", lines)]
        credit.void("c1")
        assert not credit.capture("c1", "call", lines)
        assert [60, 40] == balances(credit, ALICE, PLATFORM)

    @pytest.mark.parametrize("barred", [True, False])
    def test_without_an_open_hold_nothing_is_captured(self, credit: OperatedCredits, barred: bool) -> None:
        """A call that was given up costs nothing, however late its end is heard of."""
        grant(credit, 100)
        if barred:
            credit.authorise("c1", ALICE, Credits(60))
            credit.void("c1")
        with pytest.raises(Refused):
            credit.capture("c1", "call", {ALICE: Credits(-40), PLATFORM: Credits(40)})
        assert [100, 0] == balances(credit, ALICE, PLATFORM)

    @pytest.mark.parametrize("lines", [{ALICE: Credits(-61), PLATFORM: Credits(61)}, {ALICE: Credits(-5)}])
    def test_a_capture_beyond_its_hold_or_unbalanced_is_refused(self, credit: OperatedCredits, lines: dict[str, Credits]) -> None:
        """The hold stays, so that the right amount can still be captured."""
        grant(credit, 100)
        credit.authorise("c1", ALICE, Credits(60))
        with pytest.raises(Invalid):
            credit.capture("c1", "call", lines)
        assert Account(ALICE, Credits(100), Credits(60)) == credit.account(ALICE)

    # ------------------------------------------------------------ charges

    def test_a_charge_posts_the_difference(self, credit: OperatedCredits) -> None:
        """Totals come in, increments go into the journal."""
        grant(credit, 100)
        assert [("posted", 67, 33)] == charged(credit, a_charge(10, org=30, platform=3))
        assert [("posted", 50, 50)] == charged(credit, a_charge(20, org=45, platform=5))
        assert [50, 45, 5] == balances(credit, ALICE, "org", PLATFORM)

    def test_a_charge_that_comes_again_or_late_is_stale(self, credit: OperatedCredits) -> None:
        """Replays, reordering and two billers are harmless."""
        charged(credit, a_charge(20, org=40))
        for late in (a_charge(20, org=40), a_charge(10, org=20), a_charge(0)):
            assert [("stale", -40, 40)] == charged(credit, late)
        assert [-40, 40] == balances(credit, ALICE, "org")

    def test_every_order_of_ticks_costs_the_same(self, credit: OperatedCredits) -> None:
        """The bill is what the last tick says, however the ones before it came."""
        ticks = [(1, 10), (2, 20), (3, 35)]
        for number, order in enumerate(itertools.permutations(ticks)):
            for until, total in (*order, ticks[-1]):
                credit.charge([a_charge(until, uid=f"uid-{number}", payer=f"user:{number}", org=total)])
            assert [-35] == balances(credit, f"user:{number}")
        assert [6 * 35] == balances(credit, "org")

    def test_a_later_charge_with_a_lower_total_is_refused(self, credit: OperatedCredits) -> None:
        """It can only be a bug: nothing is posted, not even for the account that grew."""
        charged(credit, a_charge(10, org=30, provider_acme=5))
        for wrong in (a_charge(20, org=29, provider_acme=500), a_charge(20, org=30), a_charge(20)):
            assert [("refused", -35, 35)] == charged(credit, wrong)
        assert credit.charge([a_charge(20)])[0].detail
        assert [-35, 30, 5] == balances(credit, ALICE, "org", "provider:acme")
        assert [("posted", -36, 36)] == charged(credit, a_charge(20, org=31, provider_acme=5))

    @pytest.mark.parametrize(
        "wrong", [a_charge(10, org=-1), a_charge(-1, org=1), a_charge(-(2**70), org=1), a_charge(10, org=5, platform=-1)]
    )
    def test_a_charge_below_zero_is_refused(self, credit: OperatedCredits, wrong: Charge) -> None:
        """A run never earns its payer anything."""
        assert [("refused", 0, 0)] == charged(credit, wrong)
        assert () == credit.journal(ALICE)

    def test_a_payer_stays(self, credit: OperatedCredits) -> None:
        """A run is paid by one user from its start to its end."""
        charged(credit, a_charge(10, org=30))
        assert [("refused", 0, 30)] == charged(credit, a_charge(20, payer="user:bob", org=40))
        assert [-30, 0] == balances(credit, ALICE, "user:bob")

    def test_a_charge_is_never_cut(self, credit: OperatedCredits) -> None:
        """What ran is owed: the balance goes below 0, and the scheduler ends the workload."""
        grant(credit, 10)
        credit.authorise("h1", ALICE, Credits(10))
        assert [("posted", -90, 100)] == charged(credit, a_charge(10, org=100))
        assert Account(ALICE, Credits(-90), Credits(10), spent=Credits(100)) == credit.account(ALICE)

    def test_a_charge_of_nothing_counts(self, credit: OperatedCredits) -> None:
        """Free hardware is charged 0, and its time is known."""
        assert [("posted", 0, 0)] == charged(credit, a_charge(10, org=0))
        assert [("stale", 0, 0)] == charged(credit, a_charge(5))
        assert [(Span(10), Credits(0))] == [(entry.until, entry.amount) for entry in credit.journal(ALICE)]

    def test_runs_are_charged_apart(self, credit: OperatedCredits) -> None:
        """Another attempt, another replica, another job of the same id: each has its own totals."""
        apart = [
            a_charge(10, org=1),
            a_charge(10, run="job-1/2", org=2),
            a_charge(10, run="job-1/1/0", org=4),
            a_charge(10, uid="uid-2", org=8),
        ]
        assert ["posted"] * 4 == [state for state, _, _ in charged(credit, *apart)]
        assert [15] == balances(credit, "org")

    def test_each_charge_of_a_call_stands_for_itself(self, credit: OperatedCredits) -> None:
        """One bad charge among a thousand must not stop the billing of the rest; the call is in order."""
        answers = charged(
            credit,
            a_charge(10, org=5),
            a_charge(10, uid="uid-2", org=-1),
            a_charge(10, org=5),
            a_charge(20, org=9),
            a_charge(1, uid="uid-3", org=1),
        )
        assert [("posted", -5, 5), ("refused", -5, 0), ("stale", -5, 5), ("posted", -9, 9), ("posted", -10, 1)] == answers
        assert () == credit.charge([])

    def test_a_provider_may_be_paid_by_himself(self, credit: OperatedCredits) -> None:
        """Payer and payee of one charge may be the same account; the sums still hold."""
        charged(credit, a_charge(10, payer="provider:acme", provider_acme=30, platform=3))
        charged(credit, a_charge(20, payer="provider:acme", provider_acme=60, platform=6))
        assert [-6, 6] == balances(credit, "provider:acme", PLATFORM)

    # ------------------------------------------------------------ caps

    def test_at_its_cap_an_account_gets_no_new_hold(self, credit: OperatedCredits) -> None:
        """Whatever its balance; open holds count, and what is charged is charged."""
        grant(credit, 1_000)
        assert (Credits(100), Credits(0)) == ((found := credit.set_cap(ALICE, Credits(100))).cap, found.spent)
        charged(credit, a_charge(10, org=30))
        assert HoldAnswer(HoldState.OPEN, Credits(50), Credits(70)) == credit.authorise("h1", ALICE, Credits(50))
        assert HoldAnswer(HoldState.REFUSED, Credits(21), Credits(20)) == credit.authorise("h2", ALICE, Credits(21))
        assert [("posted", 880, 120)] == charged(credit, a_charge(20, org=120))
        assert (Credits(120), Credits(-70)) == ((found := credit.account(ALICE)).spent, found.available)
        assert credit.set_cap(ALICE, None).cap is None
        assert HoldState.OPEN is credit.authorise("h2", ALICE, Credits(21)).state

    def test_a_cap_of_zero_is_a_cap(self, credit: OperatedCredits) -> None:
        """A zero that was given is a zero."""
        grant(credit, 1_000)
        credit.set_cap(ALICE, Credits(0))
        assert HoldState.REFUSED is credit.authorise("h1", ALICE, Credits(1)).state
        with pytest.raises(Invalid, match="cap"):
            credit.set_cap(ALICE, Credits(-1))

    def test_each_step_of_a_cap_is_told_by_the_charge_that_reaches_it(self, credit: OperatedCredits) -> None:
        """Once, whoever asks again, and however far a charge goes at a time."""
        credit.set_cap(ALICE, Credits(100))
        ticks = [a_charge(until, org=org) for until, org in ((10, 49), (20, 50), (20, 50), (30, 79), (40, 130), (50, 140))]
        assert [0, 50, 0, 0, 100, 0] == [answer.step for answer in credit.charge(ticks)]
        assert [Credits(-40), None] == [
            credit.charge([a_charge(60, payer=payer, uid=payer, org=0)])[0].left for payer in (ALICE, "user:bob")
        ]

    def test_of_charges_that_come_together_each_sees_what_those_before_it_have_done(self, credit: OperatedCredits) -> None:
        """A batch is only faster than one by one: also where one pays whom another pays, or a run comes twice."""
        credit.set_cap("user:bob", Credits(100))
        together = [
            evolve(a_charge(10, uid="1"), totals={"user:bob": Credits(70)}),
            a_charge(10, uid="2", payer="user:bob", org=60),
            a_charge(20, uid="2", payer="user:bob", org=90),
            a_charge(20, uid="2", payer="user:bob", org=90),
            a_charge(30, uid="2", payer="user:bob", org=89),
            a_charge(10, uid="3", payer=ALICE, org=1),
        ]
        found = [(each.state, each.balance.micro, each.charged.micro, each.step) for each in credit.charge(together)]
        posted, stale, refused = ChargeState.POSTED, ChargeState.STALE, ChargeState.REFUSED
        assert [
            (posted, -70, 70, 0),
            (posted, 10, 60, 50),
            (posted, -20, 90, 80),
            (stale, -20, 90, 0),
            (refused, -20, 90, 0),
            (posted, -71, 1, 0),
        ] == found
        assert (Credits(-20), Credits(90)) == (credit.account("user:bob").balance, credit.account("user:bob").spent)

    def test_every_answer_tells_how_far_the_month_is_spent(self, credit: OperatedCredits) -> None:
        """A step that was told in an answer that got lost is found again in the next."""
        credit.set_cap(ALICE, Credits(100))
        first, again = (credit.charge([a_charge(10, org=60)])[0] for _ in range(2))
        assert [(50, Credits(100), Credits(40)), (0, Credits(100), Credits(40))] == [
            (each.step, each.cap, each.left) for each in (first, again)
        ]
        assert first.month == again.month == str(Month.parse(first.month))
        (free,) = credit.charge([a_charge(10, payer="user:bob", uid="bob", org=60)])
        assert (None, "") == (free.cap, free.month)

    def test_what_a_call_costs_counts_and_what_is_granted_does_not(self, credit: OperatedCredits) -> None:
        """A cap is on spending; being paid for one's own endpoint makes no room in it."""
        grant(credit, 100)
        credit.authorise("c1", ALICE, Credits(60))
        credit.capture("c1", "call", {ALICE: Credits(-40), "user:bob": Credits(40)})
        credit.post("fix", "correction", {ALICE: Credits(-5), ISSUE: Credits(5)})
        assert [Credits(40), Credits(0)] == [credit.account(name).spent for name in (ALICE, "user:bob")]

    # ------------------------------------------------------------ the journal

    def test_the_journal_tells_every_line(self, credit: OperatedCredits) -> None:
        """A bill is explained to the micro-credit, by run and time."""
        credit.post("grant-1", "grant", {ISSUE: Credits(-100), ALICE: Credits(100)}, "welcome")
        charged(credit, a_charge(60_000, org=30, platform=3))
        first, second = credit.journal(ALICE)
        assert Entry(first.seq, first.at, first.transaction, ALICE, Credits(100), "grant", "grant-1", "", Span(0), "welcome") == first
        assert first.at <= second.at
        assert Entry(second.seq, second.at, second.transaction, ALICE, Credits(-33), "charge", "uid-1", "job-1/1", Span(60_000)) == second
        (line,) = credit.journal("org")
        assert (second.transaction, Credits(30)) == (line.transaction, line.amount)
        assert first.transaction < second.transaction

    def test_the_journal_is_read_on(self, credit: OperatedCredits) -> None:
        """A reader keeps one number, and lines of other accounts between do not disturb it."""
        for number in range(5):
            grant(credit, 1, key=f"a{number}")
            grant(credit, 1, "user:bob", key=f"b{number}")
        found, after = [], 0
        while page := credit.journal(ALICE, after, 2):
            assert len(page) <= 2
            found += [entry.key for entry in page]
            after = page[-1].seq
        assert [f"a{number}" for number in range(5)] == found

    def test_turnover_is_summed_by_kind_and_time(self, credit: OperatedCredits) -> None:
        """A statement begins where the one before it ended: what is dated on the border counts once."""
        grant(credit, 100)
        charged(credit, a_charge(10, org=30, platform=3), a_charge(20, org=40, platform=3))
        at = credit.journal(ALICE)[0].at
        everything = {"grant": Credits(100), "charge": Credits(-43)}
        assert everything == credit.turnover(ALICE, Instant(0), credit.journal(ALICE)[-1].at + Span(1))
        assert {} == credit.turnover(ALICE, Instant(0), at)
        assert {} == credit.turnover("user:bob", Instant(0), Instant(2**50))
        later = credit.turnover(ALICE, at, Instant(2**50))
        assert everything == later

    # ------------------------------------------------------------ many at once

    def test_threads_never_hold_more_than_there_is(self, credit: OperatedCredits) -> None:
        """Balance less holds is looked at and changed in one step."""
        grant(credit, 100)
        answers = in_threads(lambda number: credit.authorise(f"h{number}", ALICE, Credits(30)).state, 8)
        assert 3 == answers.count(HoldState.OPEN)
        assert 90 == credit.account(ALICE).held.micro

    def test_two_billers_charge_once(self, credit: OperatedCredits) -> None:
        """Each tick comes twice, in any order; the last total is what was paid."""
        in_threads(lambda number: races.charge(credit, str(number + 1)), 4)
        assert [-671, 610, 61] == balances(credit, ALICE, "org", PLATFORM)

    def test_void_and_authorise_at_once_leave_no_hold(self, credit: OperatedCredits) -> None:
        """Whichever comes first, the key is barred and the credits are free."""
        grant(credit, 100)
        in_threads(lambda number: credit.void("h1") if number % 2 else credit.authorise("h1", ALICE, Credits(30)), 8)
        assert 0 == credit.account(ALICE).held.micro
        assert HoldState.CLOSED is credit.authorise("h1", ALICE, Credits(30)).state


class SharedCreditsContract:
    """For services that processes share. Give also a fixture `address`, which `tests.contract.races` can open."""

    def test_billers_in_processes_charge_once(self, credit: OperatedCredits, address: str) -> None:
        """Any number of billers at once is harmless."""
        assert ["done"] * 3 == in_processes("charge", address, ["1", "2", "1"])
        assert [-671, 610, 61] == balances(credit, ALICE, "org", PLATFORM)

    def test_processes_never_hold_more_than_there_is(self, credit: OperatedCredits, address: str) -> None:
        """Gateways are processes."""
        grant(credit, 100)
        assert ["open", "refused", "refused"] == sorted(in_processes("authorise", address, ["h1", "h2", "h3"]))
        assert 60 == credit.account(ALICE).held.micro


class TestMemoryCredits(CreditsContract):
    @pytest.fixture
    def credit(self) -> MemoryCredits:
        return MemoryCredits(ManualClock())


TABLES = ("accounts", "journal", "posted", "holds", "charges", "totals", "alarms", "caps", "spent", "cap_steps")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CreditsProcess]:
    made = CreditsProcess(tmp_path_factory.mktemp("credits"))
    made.start()
    try:
        yield made
        made.check_standing()
    finally:
        made.kill()
    made.check_left()


class TestRemoteCredits(CreditsContract, SharedCreditsContract):
    """Over HTTP, against the process that sites run."""

    @pytest.fixture
    def service(self, running: CreditsProcess) -> Iterator[CreditsProcess]:
        """With an empty journal: those of other tests are cleared away below it. Whatever a test did, its journal is proved."""
        with closing(open_credits(running.folder)) as database:
            with database.write() as db:
                for table in TABLES:
                    db.execute(f"DELETE FROM {table}")  # noqa: S608 - names of ours
                db.execute("UPDATE journal_end SET seq = 0, posting = 0, hash = zeroblob(32)")
            yield running
            assert "" == SqliteCredits(database, ManualClock()).verify().fault

    @pytest.fixture
    def address(self, service: CreditsProcess) -> str:
        return service.url

    @pytest.fixture
    def credit(self, service: CreditsProcess) -> Iterator[RemoteCredits]:
        with closing(line_to_credits(service.url, TOKEN)) as line:
            yield RemoteCredits(line)

    def test_a_token_that_it_does_not_take_is_no_fault_of_whoever_submits(self, service: CreditsProcess) -> None:
        """It may have been changed on one side a moment ago: nothing is refused for it, and nothing forgotten."""
        with closing(line_to_credits(service.url, "another-token-of-somebody")) as line, pytest.raises(Unavailable, match="ADMIN_TOKEN"):
            RemoteCredits(line).authorise("h1", ALICE, Credits(1))

    def test_no_limit_makes_an_answer_unbounded(self, credit: RemoteCredits) -> None:
        """SQLite takes a number below 0 for none."""
        for number in range(3):
            grant(credit, 1, key=f"g{number}")
        assert () == credit.journal(ALICE, limit=-1)


class TestSqliteCredits(CreditsContract, SharedCreditsContract):
    @pytest.fixture
    def address(self, tmp_path: Path) -> str:
        return f"sqlite:{tmp_path}"

    @pytest.fixture
    def credit(self, tmp_path: Path) -> Iterator[SqliteCredits]:
        """Whatever a test did, its journal is proved at its end."""
        with closing(open_credits(tmp_path)) as database:
            made = SqliteCredits(database, ManualClock())
            yield made
            assert "" == made.verify().fault

    def test_a_refused_charge_is_an_alarm_once(self, credit: SqliteCredits) -> None:
        """A biller that comes every minute with the same bug must not bury the others."""
        charged(credit, a_charge(10, org=30))
        wrong = a_charge(20, org=29)
        charged(credit, wrong, wrong, evolve(wrong, until=Span(30)), wrong)
        assert [("job-1/1", Span(20)), ("job-1/1", Span(30))] == [(alarm.run, alarm.until) for alarm in credit.alarms()]
        assert "total of org is 0.000029, and was 0.000030 at 10 ms" == credit.alarms()[0].detail

    @pytest.mark.parametrize("name", ["", "Alice", "User:x", "user:", "user:a b", "user:\ud800", "user:" + "x" * 401])
    def test_what_is_no_account_is_never_credited(self, credit: SqliteCredits, name: str) -> None:
        """A typing error must not become a purse that nobody owns."""
        wrong = evolve(a_charge(1), totals={name: Credits(1)})
        assert ["refused"] == [state for state, _, _ in charged(credit, wrong)]
        with pytest.raises(Invalid):
            credit.post("k", "grant", {ISSUE: Credits(-1), name: Credits(1)})
        with pytest.raises(Invalid):
            credit.authorise("h1", name, Credits(0))

    @pytest.mark.parametrize("total", [2**53 + 1, 2**64])
    def test_an_amount_beyond_all_money_is_refused(self, credit: SqliteCredits, total: int) -> None:
        """A sum must stay an exact integer wherever it is kept."""
        assert ["refused"] == [state for state, _, _ in charged(credit, a_charge(1, org=total))]
        for call in (lambda: grant(credit, total), lambda: credit.authorise("h1", ALICE, Credits(total))):
            with pytest.raises(Invalid):
                call()

    def test_a_plan_that_is_none_is_refused(self, credit: SqliteCredits) -> None:
        """A typing error must not open provider hardware, or close it."""
        with pytest.raises(Invalid, match="plan"):
            credit.set_plan("alice", "platinum")
