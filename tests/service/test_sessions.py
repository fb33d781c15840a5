"""Sessions in sealed cookies, limits on wrong keys, and what trusted proxies may say."""

from __future__ import annotations

import base64
import hashlib
import random
import time
from ipaddress import ip_address

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from tightrope.errors import InputError
from tightrope.service.http.answers import RefusalError
from tightrope.service.keys import KeyRing, made_key, write_keys
from tightrope.service.pages import sessions
from tightrope.service.pages.access import COOKIE, MOST_ENDED, Access
from tightrope.service.pages.sessions import HEAD, LASTS, opened, sealed
from tightrope.service.proxies import Proxies
from tightrope.service.server import Running
from tightrope.service.signins import LONGEST, MANY, MOST_ADDRESSES, TRIES, SignIns


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The keys of a file by name, the file, and the ring of its keys."""
    file = tmp_path_factory.mktemp("sessions") / "keys.jsonl"
    secrets = {name: made_key(name, ["read"]) for name in ("ann", "bob")}
    write_keys(file, [key for _, key in secrets.values()])
    return {name: secret for name, (secret, _) in secrets.items()}, file, KeyRing(file)


def asked(headers=(), *, cookie=None, client="192.0.2.1", scheme="http", host="x.example"):
    """A request as Starlette has it."""
    pairs = [("host", host), *([("cookie", f"{COOKIE}={cookie}")] if cookie else []), *headers]
    raw = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    peer = None if client is None else (client, 50000)
    return Request({"type": "http", "method": "POST", "path": "/login", "query_string": b"",
                    "scheme": scheme, "headers": raw, "client": peer})  # fmt: skip


def access_of(ring, proxies=()):
    said = []
    access = Access(ring, Proxies(proxies), lambda *words, **facts: said.append((words, facts)))
    access.said = said
    return access


def sign_in(access, secret, **how):
    """The cookie that a key gets, with its attributes."""
    answer = Response()
    access.login(asked(**how), secret, answer)
    return answer.headers["set-cookie"]


def value(cookie):
    return cookie.partition("=")[2].partition(";")[0]


# The cookie.


def test_a_cookie_names_its_session_and_hides_the_key_and_its_hash(made):
    secrets, _, ring = made
    now = time.time()
    cookies = [sealed(secrets["ann"].encode(), now) for _ in range(100)]
    assert len(set(cookies)) == 100
    found = opened(cookies[0], ring, now)
    assert (found.secret, found.issued) == (secrets["ann"].encode(), int(now))
    assert found.expires == int(now) + LASTS
    content = base64.urlsafe_b64decode(cookies[0] + "==")
    digest = hashlib.sha256(found.secret).digest()
    for hidden in (found.secret, found.secret[3:11], digest, digest[:6], digest.hex().encode()):
        assert hidden not in content
        assert hidden not in cookies[0].encode()


def test_no_changed_cookie_is_opened(made):
    """Every bit, every length, parts of other cookies."""
    secrets, _, ring = made
    now = time.time()
    text, other = (sealed(secrets[name].encode(), now) for name in ("ann", "bob"))
    content, foreign = (base64.urlsafe_b64decode(one + "==") for one in (text, other))
    wrong = [content[:size] for size in range(len(content))] + [content + b"\0", content * 2]
    for at in range(len(content)):
        wrong += [content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
                  for bit in range(8)]  # fmt: skip
        wrong += [content[:at] + foreign[at:]] if at else []
    for one in wrong:
        assert opened(base64.urlsafe_b64encode(one).decode().rstrip("="), ring, now) is None
    assert opened(text, ring, now) is not None
    assert opened(other, ring, now) is not None


@settings(max_examples=300, deadline=None)
@given(text=st.one_of(st.text(max_size=300), st.binary(max_size=300).map(
    lambda found: base64.urlsafe_b64encode(found).decode())))  # fmt: skip
def test_whatever_else_is_in_a_cookie_is_no_session(made, text):
    assert opened(text, made[2], time.time()) is None


def test_a_session_ends_after_twelve_hours_and_none_is_from_the_future(made):
    secrets, _, ring = made
    now = 1_800_000_000.0
    text = sealed(secrets["ann"].encode(), now)
    moments = {-301: 0, -299: 1, 0: 1, LASTS - 1: 1, LASTS: 0, LASTS + 1: 0, 10 * LASTS: 0}
    for seconds, valid in moments.items():
        assert (opened(text, ring, now + seconds) is not None) == bool(valid), seconds


def test_whoever_has_the_keys_file_cannot_make_a_session(made):
    """All that the file holds is a hash; a cookie must hold the key."""
    secrets, _, ring = made
    access, now = access_of(ring), int(time.time())
    for secret in secrets.values():
        digest = hashlib.sha256(secret.encode()).digest()
        head = HEAD.pack(sessions.key_id(digest), now, now + LASTS, bytes(16))
        for guess in (b"", digest, digest.hex().encode(), b"tr_" + b"A" * 43):
            content = head + sessions._ciphered(guess, digest, head)
            forged = base64.urlsafe_b64encode(content + sessions._seal(digest, content)).decode()
            assert opened(forged.rstrip("="), ring, now) is not None  # the seal is right
            assert access.grant(asked(cookie=forged.rstrip("="))) is None
    assert access.grant(asked(cookie=value(sign_in(access, secrets["ann"])))).name == "ann"


# Sessions of several people and processes.


def test_no_number_of_sign_ins_and_outs_touches_the_sessions_of_others(made):
    secrets, _, ring = made
    access = access_of(ring)
    bob, gone = (value(sign_in(access, secrets["bob"])) for _ in range(2))
    access.logout(asked(cookie=gone), Response())
    ann = value(sign_in(access, secrets["ann"]))
    for _ in range(MOST_ENDED + 500):
        cookie = value(sign_in(access, secrets["ann"]))
        access.logout(asked(cookie=cookie), Response())
        assert access.grant(asked(cookie=cookie)) is None
    assert access.grant(asked(cookie=bob)).name == "bob"
    assert access.grant(asked(cookie=ann)).name == "ann"
    assert access.grant(asked(cookie=gone)) is None
    assert sum(map(len, access._ended.values())) == MOST_ENDED + 1
    for cookie in (None, "nonsense", gone):  # nobody is signed in: there is nothing to end
        access.logout(asked(cookie=cookie), Response())
    assert sum(map(len, access._ended.values())) == MOST_ENDED + 1


def test_sessions_hold_in_every_process_and_after_a_restart_until_the_key_is_removed(tmp_path):
    file, made = tmp_path / "keys.jsonl", [made_key(name, ["read"]) for name in ("ann", "bob")]
    write_keys(file, [key for _, key in made])
    start = [tmp_path / "store.db", "--keys", str(file)]
    with Running(*start) as first, Running(*start) as second:
        cookies = []
        for (secret, _), server in zip(made, (first, second), strict=True):
            headers = {"origin": server.url}
            found = httpx.post(f"{server.url}/login", data={"key": secret}, headers=headers)
            assert found.status_code == 303
            cookies.append({COOKIE: found.cookies[COOKIE]})

        def seen(server):
            return [httpx.get(server.url, cookies=one).status_code for one in cookies]

        assert seen(first) == seen(second) == [200, 200]
        second.stop()
        with Running(*start) as third:
            assert seen(third) == [200, 200]
            write_keys(file, [made[1][1]])
            until = time.monotonic() + 10
            while seen(first) + seen(third) != [303, 200] * 2 and time.monotonic() < until:
                time.sleep(0.2)
            assert seen(first) + seen(third) == [303, 200] * 2
    assert "keys were read again" in first.said  # a page noticed it


# Wrong keys.


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def test_an_address_waits_longer_with_every_wrong_key():
    clock = Clock()
    counts, me = SignIns(clock), ip_address("192.0.2.1")
    waits = []
    for _ in range(TRIES + 8):
        waits.append(counts.wrong(me))
        assert counts.wait(me) == waits[-1]
        clock.now += waits[-1]
        assert counts.wait(me) == 0
    assert waits == [0] * (TRIES - 1) + [1, 2, 4, 8, 16, 32, 32, 32, 32]
    clock.now += 601
    assert counts.wrong(me) == 0


@pytest.mark.parametrize("addresses", [1, 50, 2000])
def test_wrong_keys_are_bounded_and_others_are_never_locked_out(addresses):
    """Attackers who try all the time, with one address or many; others come now and then."""
    clock, dice = Clock(), random.Random(addresses)
    counts, looked, seconds = SignIns(clock), 0, 600
    attackers = [ip_address(0x0A000000 + number) for number in range(addresses)]
    for step in range(seconds * 2):
        clock.now += 0.5
        for one in dice.sample(attackers, min(addresses, 200)) * (3 if addresses == 1 else 1):
            assert counts.wait(one) <= LONGEST  # whatever it has sent
            if not counts.wait(one):
                looked += 1
                counts.wrong(one)
        assert counts.wait(ip_address(0xC0000200 + step)) == 0  # who sent no wrong key
    most = addresses * (TRIES + 6 + seconds / LONGEST)
    assert looked <= most
    if addresses == 2000:  # so many that each has one try, and then waits longest
        assert looked <= MANY * (TRIES + 6) + addresses * (1 + seconds / LONGEST)


def test_what_is_remembered_of_addresses_is_bounded():
    clock = Clock()
    counts = SignIns(clock)
    for number in range(3 * MOST_ADDRESSES):
        counts.wrong(ip_address(number))
    assert len(counts._wrong) == MOST_ADDRESSES
    assert counts.wait(ip_address(3 * MOST_ADDRESSES - 1)) == LONGEST


def test_a_household_with_ipv6_is_one_address():
    counts = SignIns(Clock())
    for number in range(TRIES):
        counts.wrong(ip_address("2001:db8:0:1::") + number * 2**40)
    assert counts.wait(ip_address("2001:db8:0:1:ffff::1")) == 1
    assert counts.wait(ip_address("2001:db8:0:2::1")) == 0
    assert counts.wait(ip_address("192.0.2.1")) == 0
    assert counts.wait(None) == 0


def test_a_key_of_an_address_that_waits_is_not_looked_at(made):
    secrets, _, ring = made
    access, clock = access_of(ring), Clock()
    access.sign_ins = SignIns(clock)
    for number in range(TRIES):
        with pytest.raises(RefusalError, match="This key is not valid") as error:
            sign_in(access, f"tr_wrong{number}")
        assert error.value.status == 401
    assert error.value.headers == [(b"retry-after", b"1")]
    assert [facts["address"] for _, facts in access.said] == [ip_address("192.0.2.1")]
    for secret in ("tr_wrong", secrets["ann"]):
        with pytest.raises(RefusalError, match=r"from 192.0.2.1: try again in 1 second\.") as error:
            sign_in(access, secret)
        assert error.value.status == 429
        assert error.value.headers == [(b"retry-after", b"1")]
    assert sign_in(access, secrets["ann"], client="192.0.2.2")
    clock.now += 1
    assert sign_in(access, secrets["ann"])
    assert len(access.said) == 1
    assert "tr_" not in str(access.said)


def until_429(post):
    """The answers to one request, again and again until it is refused without a look."""
    found = [post()]
    while found[-1].status_code != 429 and len(found) < 20:
        found.append(post())
    assert found[-1].status_code == 429
    return found


def test_the_form_says_how_long_to_wait(made, tmp_path):
    secrets, file, _ = made
    with Running(tmp_path / "store.db", "--keys", str(file)) as server:
        client = httpx.Client(base_url=server.url, headers={"origin": server.url})
        found = until_429(lambda: client.post("/login", data={"key": "tr_no"}))
        assert [one.status_code for one in found[:TRIES]] == [401] * TRIES
        assert found[TRIES - 2].headers.get("retry-after") is None
        for one in (found[TRIES - 1], found[-1]):
            seconds = int(one.headers["retry-after"])
            said = f"Too many wrong keys came from 127.0.0.1: try again in {seconds} second"
            assert said in one.text
            assert "set-cookie" not in one.headers
        time.sleep(seconds)
        assert client.post("/login", data={"key": secrets["ann"]}).status_code == 303
        client.close()
    assert "too many wrong keys" in server.said


def test_wrong_keys_of_the_api_make_an_address_wait(made, tmp_path):
    """But no client whose key was valid before: it may be at the same address."""
    secrets, file, _ = made

    def get(secret):
        return client.get("/v1/campaigns", headers={"authorization": f"Bearer {secret}"})

    with Running(tmp_path / "store.db", "--keys", str(file)) as server:
        client = httpx.Client(base_url=server.url, headers={"origin": server.url})
        assert get(secrets["ann"]).status_code == 200
        for _ in range(2 * TRIES):  # without a key nothing is tried
            assert client.get("/v1/campaigns").status_code == 401
        found = until_429(lambda: get("tr_no"))
        assert [one.status_code for one in found[:TRIES]] == [401] * TRIES
        assert found[0].headers["www-authenticate"] == "Bearer"
        assert "retry-after" not in found[0].headers
        assert found[-1].json()["code"] == "rate_limited"
        assert found[-1].headers["retry-after"] in "12"
        assert get(secrets["ann"]).status_code == 200  # seen before, and so it does not wait
        asked = client.post("/v1/campaigns/none/decisions", headers={"authorization": "Bearer no"})
        assert asked.status_code == 429
        form = client.post("/login", data={"key": secrets["bob"]})
        assert form.status_code == 429  # both count together
        client.close()
    assert server.said.count("too many wrong keys") >= 1
    assert "tr_no" not in server.said


# Proxies.

FAR, NEAR, CLIENT, OTHER = "10.1.0.1", "10.0.0.1", "198.51.100.7", "203.0.113.9"
TRUSTED = ["10.0.0.0/8", "2001:db8:ffff::1"]
FORWARDED = "x-forwarded-for"


@pytest.mark.parametrize(
    ("peer", "told", "found"),
    [
        (CLIENT, [], CLIENT),
        (CLIENT, [OTHER], CLIENT),  # whoever is not trusted says what it likes
        (CLIENT, [f"{OTHER}, {NEAR}"], CLIENT),
        (NEAR, [], NEAR),
        (NEAR, [CLIENT], CLIENT),
        (NEAR, [f"{OTHER}, {CLIENT}"], CLIENT),  # the first one was told by the client
        (NEAR, [f"{OTHER},{CLIENT},{FAR}"], CLIENT),
        (NEAR, [OTHER, CLIENT, FAR], CLIENT),  # in several lines
        (NEAR, [OTHER, f"{CLIENT}, {FAR}"], CLIENT),
        (NEAR, [f"{NEAR}, {FAR}"], NEAR),  # a client within the trusted network
        (NEAR, [f"{OTHER}, unknown"], NEAR),
        (NEAR, [f"{OTHER}, nonsense, {FAR}"], FAR),
        (NEAR, ["", ""], NEAR),
        (NEAR, [f"{OTHER},"], NEAR),
        (NEAR, [f"{CLIENT}:4711"], CLIENT),
        (NEAR, ["[2001:db8::5]:4711"], "2001:db8::5"),
        (NEAR, ["2001:db8::5"], "2001:db8::5"),
        (f"::ffff:{NEAR}", [f"::ffff:{CLIENT}"], CLIENT),
        ("2001:db8:ffff::1", [CLIENT], CLIENT),
        ("2001:db8:ffff::2", [CLIENT], "2001:db8:ffff::2"),
        (None, [CLIENT], None),
        ("testclient", [CLIENT], None),
    ],
)
def test_the_address_is_the_last_that_no_trusted_proxy_has(peer, told, found):
    request = asked([(FORWARDED, line) for line in told], client=peer)
    assert Proxies(TRUSTED).address(request.scope) == (found and ip_address(found))
    untrusting = Proxies().address(request.scope)
    assert untrusting == (ip_address(peer.removeprefix("::ffff:")) if peer and "." in peer
                          else Proxies().address(asked(client=peer).scope))  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(st.text(st.characters(max_codepoint=255), max_size=60), max_size=5))
def test_no_client_can_take_the_address_of_another(lines):
    """Whatever a client sends, the proxy adds its address at the end."""
    headers = [(FORWARDED, line) for line in [*lines, CLIENT]]
    assert Proxies(TRUSTED).address(asked(headers, client=NEAR).scope) == ip_address(CLIENT)
    joined = [(FORWARDED, ", ".join([*lines, CLIENT]))]
    assert Proxies(TRUSTED).address(asked(joined, client=NEAR).scope) == ip_address(CLIENT)
    assert Proxies(TRUSTED).address(asked(headers, client=OTHER).scope) == ip_address(OTHER)


@pytest.mark.parametrize(
    ("peer", "scheme", "told", "found"),
    [
        (CLIENT, "http", ["https"], "http"),
        (CLIENT, "https", ["http"], "https"),
        (NEAR, "http", [], "http"),
        (NEAR, "http", ["https"], "https"),
        (NEAR, "http", ["HTTPS "], "https"),
        (NEAR, "https", ["http"], "http"),
        (NEAR, "http", ["https, http"], "http"),
        (NEAR, "http", ["http, https"], "https"),
        (NEAR, "http", ["http", "https"], "https"),
        (NEAR, "http", ["wss"], "http"),
        (NEAR, "http", [""], "http"),
        (None, "http", ["https"], "http"),
    ],
)
def test_secure_and_own_pages_follow_a_trusted_proxy_alone(made, peer, scheme, told, found):
    secrets, _, ring = made
    access = access_of(ring, TRUSTED)
    how = {"headers": [("x-forwarded-proto", one) for one in told], "client": peer}
    how["scheme"] = scheme
    assert access.proxies.scheme(asked(**how).scope) == found
    assert ("; secure" in sign_in(access, secrets["ann"], **how).lower()) == (found == "https")
    answer = Response()
    access.logout(asked(**how), answer)
    assert ("; secure" in answer.headers["set-cookie"].lower()) == (found == "https")
    for origin, own in (("https://x.example", True), ("http://x.example", found == "http")):
        headers = [*how["headers"], ("origin", origin)]
        if own:
            access.require_own_page(asked(**{**how, "headers": headers}))
        else:
            with pytest.raises(RefusalError, match="must be a page of this service"):
                access.require_own_page(asked(**{**how, "headers": headers}))


HOSTILE = ["", "null", "http://[", "http://", "https://", "x.example", "//x.example",
           "http:x.example",
           "http://x.example.evil.example", "http://evil.example", "http://evil@x.example",
           "http://x.example@evil.example", "http://x.example:1", "http://x.example/",
           "http://x.example, http://x.example", "ftp://x.example", "http://\xff", " ", "\0",
           "http://" + "x" * 9999]  # fmt: skip


@pytest.mark.parametrize("origin", HOSTILE)
@pytest.mark.parametrize("host", ["x.example", "", "]"])
def test_only_the_very_origin_is_an_own_page(made, origin, host):
    with pytest.raises(RefusalError, match="must be a page of this service") as error:
        access_of(made[2]).require_own_page(asked([("origin", origin)], host=host))
    assert error.value.status == 403
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("text", ["", "nginx", "10.0.0.1/8", "10.0.0.0/33", "300.1.1.1", "::/129"])
def test_what_is_no_proxy_is_refused_in_one_line(text):
    with pytest.raises(InputError, match=r"--trusted-proxy .*: must be an address") as error:
        Proxies(["10.0.0.1", text])
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)


def test_behind_a_trusted_proxy_each_client_has_its_own_tries(made, tmp_path):
    secrets, file, _ = made
    options = ("--keys", str(file), "--trusted-proxy", "127.0.0.0/8", "--trusted-proxy", "::1")
    with Running(tmp_path / "store.db", *options) as server:

        def post(client, key):
            headers = {FORWARDED: f"127.0.0.2, {client}", "x-forwarded-proto": "https",
                       "origin": "https://x.example", "host": "x.example"}  # fmt: skip
            return httpx.post(f"{server.url}/login", data={"key": key}, headers=headers)

        assert len(until_429(lambda: post(CLIENT, "tr_no"))) > TRIES
        answer = post(OTHER, secrets["ann"])
        assert answer.status_code == 303
        assert "; secure" in answer.headers["set-cookie"].lower()
    assert f'"address": "{CLIENT}"' in server.said
