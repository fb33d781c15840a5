"""The SQL of the stores: their tables, and the statements that a PostgreSQL session prepares."""

from __future__ import annotations

from tightrope.live.stores.base import COLUMNS, FORMAT

SQLITE_TABLES = """
CREATE TABLE campaigns (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE events (
    campaign INTEGER NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL,
    ticket TEXT, who TEXT NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,
    hash BLOB NOT NULL, PRIMARY KEY (campaign, seq)
) WITHOUT ROWID;
CREATE INDEX events_of_tickets ON events (campaign, ticket) WHERE ticket IS NOT NULL;
CREATE TABLE snapshots (
    campaign INTEGER NOT NULL, seq INTEGER NOT NULL, hash BLOB NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (campaign, seq)
);
CREATE TABLE notes (
    campaign INTEGER NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (campaign, seq)
);
"""
MORE_SQLITE_TABLES = """
CREATE TABLE IF NOT EXISTS heads (
    campaign INTEGER PRIMARY KEY, seq INTEGER NOT NULL, hash BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS vectors (
    campaign INTEGER NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (campaign, seq)
) WITHOUT ROWID;
"""  # the last event of each log; features outside the logs; files of earlier versions are without

# PostgreSQL.

KEY = 0x74727065  # "trpe", of the advisory locks: of the tables, and of each campaign's queue
VECTORS = """
CREATE TABLE IF NOT EXISTS tightrope_vectors (
    campaign bigint NOT NULL, seq bigint NOT NULL, text text NOT NULL, PRIMARY KEY (campaign, seq)
);
"""  # of campaigns whose features can be erased; made for the first one
HAS_VECTORS = "SELECT to_regclass('tightrope_vectors') IS NOT NULL"
TABLES = f"""
CREATE TABLE tightrope_campaigns (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE
);
CREATE TABLE tightrope_events (
    campaign bigint NOT NULL, seq bigint NOT NULL, at bigint NOT NULL, kind text NOT NULL,
    ticket text COLLATE "C", who text NOT NULL, version bigint NOT NULL, body text NOT NULL,
    hash bytea NOT NULL, PRIMARY KEY (campaign, seq)
);
CREATE INDEX tightrope_events_of_tickets ON tightrope_events (campaign, ticket)
    WHERE ticket IS NOT NULL;
CREATE TABLE tightrope_snapshots (
    campaign bigint NOT NULL, seq bigint NOT NULL, hash bytea NOT NULL, body bytea NOT NULL,
    PRIMARY KEY (campaign, seq)
);
CREATE TABLE tightrope_notes (
    campaign bigint NOT NULL, seq bigint NOT NULL, text text NOT NULL, PRIMARY KEY (campaign, seq)
);
CREATE TABLE tightrope_format (number bigint NOT NULL);
INSERT INTO tightrope_format VALUES ({FORMAT});
"""
MINE = "campaign = (SELECT id FROM tightrope_campaigns WHERE name = $1)"
GIVEN = MINE.replace("$1", "%(name)s")
STATEMENTS = f"""
PREPARE tr_queue (text) AS SELECT pg_advisory_lock({KEY}, hashtext(current_schema() || '.' || $1));
PREPARE tr_next (text) AS SELECT pg_advisory_unlock({KEY}, hashtext(current_schema() || '.' || $1));
PREPARE tr_lock (text) AS
    SELECT id FROM tightrope_campaigns WHERE name = $1 FOR NO KEY UPDATE;
PREPARE tr_state (text) AS
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    (SELECT seq FROM tightrope_events WHERE {MINE} ORDER BY seq DESC LIMIT 1);
PREPARE tr_read (text, bigint, bigint) AS
    SELECT {COLUMNS} FROM tightrope_events WHERE {MINE} AND seq > $2 ORDER BY seq LIMIT $3;
PREPARE tr_find (text, text[]) AS
    SELECT {COLUMNS} FROM tightrope_events
    WHERE {MINE} AND ticket = ANY ($2) AND ticket IS NOT NULL;
PREPARE tr_append (text, bigint[], bigint[], text, text, text, bigint[], text, text) AS
    INSERT INTO tightrope_events SELECT (SELECT id FROM tightrope_campaigns WHERE name = $1),
    seq, at, kind, ticket, who, version, body, decode(hash, 'hex')
    FROM unnest($2, $3, string_to_array($4, E'\\x1f'), string_to_array($5, E'\\x1f', ''),
        string_to_array($6, E'\\x1f'), $7, string_to_array($8, E'\\x1f'),
        string_to_array($9, ',')) AS given (seq, at, kind, ticket, who, version, body, hash);
PREPARE tr_note (text, bigint[], text[]) AS
    INSERT INTO tightrope_notes SELECT (SELECT id FROM tightrope_campaigns WHERE name = $1), *
    FROM unnest($2, $3);
"""
# PostgreSQL keeps the plans of prepared statements, which must not be plans for small tables. No
# plan is worth compiling.
PLANS = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off; SET jit = off;"
)
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
# Sessions that hold a turn and do not read the server's answer.
DEAF = """
SELECT pid, state_change FROM pg_stat_activity WHERE wait_event = 'ClientWrite'
    AND datname = current_database() AND usename = current_user
    AND backend_xid IS NOT NULL AND query LIKE '%EXECUTE tr\\_%'
"""
