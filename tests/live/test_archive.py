"""Backups, restored stores, archives; another policy, other limits and arms for a campaign."""

from __future__ import annotations

import json

import pytest

from tightrope import Limit, Problem, Task, open_campaign
from tightrope.errors import CampaignError, HaltedError, InputError, ReportError
from tightrope.live import Campaign, turns, verification
from tightrope.live.archive import archive_events, backup_store, restore_store
from tightrope.live.log import archived_rows
from tightrope.live.stores import open_store
from tightrope.live.stores.memory import MemoryStore
from tightrope.policies import FixedArm, UniformRandom
from tightrope.problem import Arm
from tightrope.problem.distributions import Bernoulli

TASK = Task(["mail", "call"], {"complaints": Limit(0.5)})


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "store.db")


@pytest.fixture
def campaign(path):
    with open_campaign(path, "spring", task=TASK, budget=1000, policy=UniformRandom()) as made:
        yield made


def pull(campaign: Campaign, count: int = 1) -> None:
    for ticket in campaign.ask_many(count):
        campaign.tell(ticket.id, cost=0.5, reward=1, penalty=0)


def test_a_backup_is_as_of_one_moment_and_the_campaign_goes_on(campaign, path, tmp_path):
    pull(campaign, 5)
    waiting = campaign.ask()
    backup_store(path, str(tmp_path / "copy.db"))
    pull(campaign, 5)
    with open_campaign(tmp_path / "copy.db", "spring") as copy:
        assert copy.status()["told"] == 5
        assert copy.ticket(waiting.id).state == "open"
        assert copy.verify().good
    with pytest.raises(InputError, match="already exists; must be a new file"):
        backup_store(path, str(tmp_path / "copy.db"))


def test_a_restored_store_starts_an_epoch_pauses_and_lists_what_it_cannot_vouch_for(
    campaign, path, tmp_path
):
    pull(campaign, 3)
    waiting = campaign.ask()
    backup_store(path, str(tmp_path / "copy.db"))
    lost = campaign.ask()  # after the backup
    new = str(tmp_path / "new.db")
    assert restore_store(str(tmp_path / "copy.db"), new) == {"spring": [waiting.id]}
    with open_campaign(new, "spring") as again:
        status = again.status()
        assert (status["state"], status["epoch"], status["doubtful"]) == ("paused", 2, [waiting.id])
        assert status["reserved"] == 1.0, "the doubtful ticket is still paid for"
        with pytest.raises(CampaignError, match="restored from a backup"):
            again.ask()
        with pytest.raises(ReportError, match="is unknown"):
            again.tell(lost.id, cost=0.5, reward=1, penalty=0)
        again.tell(waiting.id, cost=0.5, reward=1, penalty=0)
        again.resume()
        assert again.ask().id.startswith("2-"), "no id of the lost epoch is given twice"
        assert again.verify().good
    with pytest.raises(InputError, match="exists"):
        restore_store(str(tmp_path / "copy.db"), new)


def test_nothing_is_left_of_a_restore_that_failed(tmp_path):
    (tmp_path / "copy.db").write_bytes(b"not a database at all, just some bytes")
    with pytest.raises(InputError, match="must be a file of campaigns"):
        restore_store(str(tmp_path / "copy.db"), str(tmp_path / "new.db"))
    assert not (tmp_path / "new.db").exists()


def test_a_replica_whose_head_is_gone_halts(campaign, path, tmp_path):
    pull(campaign, 2)
    backup_store(path, str(tmp_path / "copy.db"))
    pull(campaign, 2)
    # The file is put back under a process that has seen more.
    rows = open_store(str(tmp_path / "copy.db")).read("spring", 0, 100)
    with campaign.store.turn("spring") as turn:
        turn.drop(10**9)
        turn.append(rows, {})
    with pytest.raises(HaltedError, match="is no longer in the store"):
        campaign.ask()


def test_archived_events_are_in_the_file_and_the_campaign_goes_on(campaign, path, tmp_path):
    pull(campaign, 10)
    waiting = campaign.ask()
    file = str(tmp_path / "old.jsonl")
    with pytest.raises(InputError, match="must be from 1 to 21"):
        archive_events(campaign, file, 22)
    assert archive_events(campaign, file, 15) == 15
    assert [row.seq for row in archived_rows(file)] == list(range(1, 16))
    found = campaign.verify()
    assert (found.good, found.first) == (True, 16)
    campaign.tell(waiting.id, cost=0.5, reward=1, penalty=0)
    pull(campaign)
    with open_campaign(path, "spring") as again:
        assert again.status() == campaign.status()
        assert again.verify().good
        with pytest.raises(ReportError, match="is unknown"):
            again.tell("1-00000001", cost=0.5, reward=1, penalty=0)
        with pytest.raises(InputError, match="archived"):
            again.change(policy=FixedArm("mail"))
        again.change(policy=FixedArm("mail"), archives=[file])
        assert again.ask().arm == "mail"
        assert again.verify().good
    lines = (tmp_path / "old.jsonl").read_text().splitlines()
    changed = {**json.loads(lines[4]), "at": 1}
    (tmp_path / "forged.jsonl").write_text("\n".join([*lines[:4], json.dumps(changed), *lines[5:]]))
    with pytest.raises(InputError, match="event 5: its hash does not follow"):
        archived_rows(str(tmp_path / "forged.jsonl"))


def test_a_policy_learns_from_archives_what_it_learns_from_the_whole_log(campaign, path, tmp_path):
    """Two archives, given in any order; the seed is that of the first event."""
    pull(campaign, 20)
    backup_store(path, str(tmp_path / "whole.db"))
    files = [str(tmp_path / name) for name in ("one.jsonl", "two.jsonl")]
    archive_events(campaign, files[0], 15)
    archive_events(campaign, files[1], 30)
    limits = {"complaints": 0.25}
    with pytest.raises(InputError, match="events before 31 are archived"):
        campaign.change(limits=limits)
    with pytest.raises(HaltedError, match="event 31: follows 15; one is missing"):
        campaign.change(limits=limits, archives=files[:1])
    campaign.change(limits=limits, archives=files[::-1])
    with open_campaign(tmp_path / "whole.db", "spring") as whole:
        whole.change(limits=limits)
        assert whole.refreshed().controller == campaign.refreshed().controller
    assert campaign.verify().good


def test_another_policy_learns_again_from_the_whole_log(campaign, path):
    pull(campaign, 8)
    waiting = campaign.ask()
    before = campaign.status()
    campaign.change(policy=FixedArm("call"))
    after = campaign.status()
    for key in ("spent", "reserved", "told", "in_flight", "reward", "arms"):
        assert after[key] == before[key], key
    assert campaign.refreshed().controller.spent == pytest.approx(after["spent"])
    assert {campaign.ask().arm for _ in range(5)} == {"call"}
    campaign.tell(waiting.id, cost=0.5, reward=1, penalty=0)
    found = campaign.verify()
    assert (found.good, found.learned_from) == (True, 19)
    with open_campaign(path, "spring") as again:
        assert again.ask().arm == "call", "another process finds the new policy"


class Gone(FixedArm):
    """A policy that later programs do not have."""


def test_what_was_learned_by_an_earlier_policy_need_not_be_learned_again(path, monkeypatch):
    monkeypatch.setattr(turns, "SNAPSHOT_EVERY", 4)
    policy = Gone("mail")
    with open_campaign(path, "old", task=TASK, budget=100, policy=policy) as campaign:
        for _ in range(4):
            pull(campaign)
        campaign.change(policy=FixedArm("call"))
        for _ in range(4):
            pull(campaign)
        wanted = campaign.verify()
        assert (wanted.good, wanted.learned_from) == (True, 10)
        monkeypatch.setattr(verification, "_same", lambda one, other: None)
        others = campaign.verify()
        monkeypatch.undo()
    kept = wanted.to_the_bit
    assert (wanted.snapshots, wanted.within_rounding) == (kept + wanted.money_only, 0)
    assert min(kept, wanted.money_only) > 0
    assert (others.money_only, len(others.wrong)) == (wanted.money_only, kept)
    store = open_store(path)
    found = verification.verified(store, "old", None)  # the class is not known by its name
    store.close()
    assert (found.learned_from, found.to_the_bit) == (10, kept)


def test_other_limits_keep_their_names(campaign):
    pull(campaign, 4)
    with pytest.raises(InputError, match="did you mean 'complaints'"):
        campaign.change(limits={"complaint": 0.2})
    campaign.change(limits={"complaints": Limit(0.2, per="pull")})
    assert campaign.status()["limits"] == {"complaints": {"at_most": 0.2, "per": "pull"}}
    campaign.change(limits={"complaints": 0.3})
    assert campaign.status()["limits"] == {"complaints": {"at_most": 0.3, "per": "pull"}}
    pull(campaign, 4)
    assert campaign.verify().good


def test_a_hard_limit_that_changes_moves_its_account(path):
    task = Task(["mail"], {"harm": Limit(total=5, hard=True)})
    with open_campaign(path, "hard", task=task, budget=100, policy=UniformRandom()) as campaign:
        ticket = campaign.ask()
        campaign.tell(ticket.id, cost=1, reward=1, penalty=1)
        campaign.change(limits={"harm": Limit(total=8, hard=True)})
        assert campaign.status()["hard"]["harm"] == {
            "budget": 8.0,
            "spent": 1.0,
            "reserved": 0.0,
            "free": 7.0,
        }
        with pytest.raises(InputError, match="must stay hard"):
            campaign.change(limits={"harm": Limit(0.5)})
        assert campaign.verify().good


def test_arms_and_budget_change_by_events(campaign, path):
    pull(campaign, 3)
    assert campaign.add_arm("post", like="mail", weight=5.0) == 2
    campaign.retire_arm("call")
    campaign.add_budget(50)
    campaign.pin("post")
    assert {campaign.ask().arm for _ in range(3)} == {"post"}
    campaign.pin(None)
    assert {campaign.ask().arm for _ in range(30)} == {"mail", "post"}
    with pytest.raises(InputError, match="is retired"):
        campaign.pin("call")
    with pytest.raises(InputError, match="an arm has this name already"):
        campaign.add_arm("post")
    with open_campaign(path, "spring") as again:
        assert again.status() == campaign.status()
        assert again.status()["budget"] == 1050.0
        assert again.verify().good


def test_amendments_move_money_and_are_all_or_none(campaign):
    tickets = campaign.ask_many(3)
    for ticket in tickets:
        campaign.tell(ticket.id, cost=0.5, reward=1, penalty=1)
    campaign.amend(tickets[0].id, cost=0.75, penalty={"complaints": 0})
    campaign.amend(tickets[0].id, cost=0.25, note="the bill was wrong")
    status = campaign.status()
    assert (status["spent"], status["penalties"]) == (1.25, {"complaints": 2.0})
    assert campaign.notes() == {status["events"]: "the bill was wrong"}
    assert campaign.notes(forget=[status["events"]]) == {}
    bill = [{"id": tickets[1].id, "cost": 0.1}, {"id": "unknown", "cost": 0.1}]
    with pytest.raises(InputError, match="is unknown; must be a reported ticket"):
        campaign.amend_many(bill)
    assert campaign.status()["spent"] == 1.25
    assert campaign.amend_many(bill[:1], note="november") == 1
    assert campaign.status()["spent"] == 0.85
    assert campaign.refreshed().controller.spent == pytest.approx(0.85)
    assert campaign.verify().good


def test_why_goes_back_to_the_decision(campaign):
    pull(campaign, 4)
    waiting = campaign.ask()
    known = campaign.status()
    ticket = campaign.ask(eligible=["call"])
    pull(campaign, 4)
    why = campaign.why(ticket.id)
    assert (why.arm, why.among, why.free) == ("call", ["call"], known["free"])
    flying = {row["arm"]: row["in_flight"] for row in why.arms}
    assert flying == {"mail": 0, "call": 0, **{waiting.arm: 1}}
    assert [row["pulls"] for row in why.arms] == [row["pulls"] for row in known["arms"]]
    json.dumps(why.table())


def test_a_campaign_of_a_problem_sees_the_task_alone(path):
    arms = [Arm("a", Bernoulli(0.5), Bernoulli(0.5), Bernoulli(0.1))]
    problem = Problem(arms, limit=0.5)
    with open_campaign(path, "p", task=problem, budget=10, policy=UniformRandom()) as campaign:
        assert campaign.refreshed().controller.task == problem.task


def test_tickets_expire_in_the_order_of_their_times_not_of_their_decisions():
    clock = [10**15]
    store = MemoryStore(lambda: clock[0])
    policy = UniformRandom()
    campaign = open_campaign(store, "e", task=TASK, budget=1e6, policy=policy, expire_after=100)
    slow = campaign.ask("slow")
    quick = campaign.ask("quick", expire_after=5)
    assert (slow.expires_at - quick.expires_at).total_seconds() == 95
    with pytest.raises(InputError, match="another expiry"):
        campaign.ask("quick", expire_after=6)
    clock[0] += 6 * 10**6
    campaign.void(campaign.ask().id)
    assert campaign.ticket("quick").state == "expired"
    assert campaign.ticket("slow").state == "open"
    for _ in range(500):  # closed tickets are forgotten, long before they would expire
        pull(campaign)
    assert len(campaign.refreshed().ledger.due) < 150
    clock[0] += 100 * 10**6
    campaign.void(campaign.ask().id)
    assert campaign.ticket("slow").state == "expired"
    assert campaign.verify().good


def test_who_followed_many_events_to_open_a_campaign_keeps_a_snapshot(campaign, path):
    for _ in range(6):
        pull(campaign, 100)
    assert campaign.store.saved("spring").seq == 1
    with open_campaign(path, "spring") as again:
        ticket = again.ask()
        assert again.store.saved("spring").seq == again.status()["events"]
        again.void(ticket.id)
        assert again.verify().to_the_bit == 2
