-- The read models. Names are unqualified throughout: the schema is the one at the head
-- of search_path, so that a rebuild can fill a second schema beside the live one.
--
-- Whatever a stranger may have put a NUL into is bytea (sealed content, key labels,
-- failure reasons); metadata is canonical JSON, whose text never holds a raw NUL, and is
-- text. It is never jsonb, which refuses \u0000.

-- +goose Up
-- +goose StatementBegin

-- Tables of earlier versions hold nothing that the log does not: they are made again, and
-- the projector fills them.
DROP TABLE IF EXISTS body_pages, tiles, stake_movements, batch_attempts, batches, memories, corrections, retractions, erasures, grants, api_keys,
    sessions, owners, checkpoint CASCADE;

-- How far the log has been projected. The row travels in the same transaction
-- as the rows that it vouches for.
CREATE TABLE checkpoint (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    -- Another database, or a schema that was built anew, has another
    -- generation: positions are comparable within one only.
    generation uuid        NOT NULL DEFAULT gen_random_uuid(),
    seq        bigint      NOT NULL CHECK (seq >= 0),
    stored_at  timestamptz -- when the log stored the message at seq
) WITH (fillfactor = 10);
INSERT INTO checkpoint (seq) VALUES (0);

-- advance_checkpoint is the fence against a second projector: a transaction
-- whose author did not know the checkpoint fails as a whole. It announces the
-- new position to whoever listens once the transaction commits.
CREATE OR REPLACE FUNCTION advance_checkpoint(of_generation uuid, expected bigint, next bigint, stored timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE checkpoint SET seq = next, stored_at = stored WHERE seq = expected AND generation = of_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkpoint is not at %', expected USING ERRCODE = 'ML001';
    END IF;
    PERFORM pg_notify('position_' || current_schema(), of_generation || ' ' || next);
END
$$;

-- An owner's row says only what the memories do not: how many leaves there are, and the
-- newest leaf's sequence, their own rows tell.
CREATE TABLE owners (
    owner          text COLLATE "C" PRIMARY KEY,
    user_id        uuid,
    registered_at  timestamptz,
    others         bigint NOT NULL, -- messages of the ledger family less the leaves
    last_seq       bigint,          -- NULL: the newest leaf's, or none
    chain_version  bigint NOT NULL, -- newest ownerversion of the chain family
    chain_last_seq bigint NOT NULL
) WITH (fillfactor = 50); -- every message may update its owner: room to do it in place

CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    audience   text        NOT NULL,
    token_hash bytea,
    issued_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    seq        bigint      NOT NULL
);
CREATE INDEX sessions_by_token ON sessions (token_hash) WHERE token_hash IS NOT NULL;
CREATE INDEX sessions_active ON sessions (owner, expires_at) WHERE revoked_at IS NULL;

CREATE TABLE api_keys (
    id           uuid PRIMARY KEY,
    owner        text COLLATE "C" NOT NULL,
    hash         bytea       NOT NULL,
    prefix       text        NOT NULL,
    label        bytea       NOT NULL, -- UTF-8 that may hold NUL
    created_at   timestamptz NOT NULL,
    created_by   text COLLATE "C",  -- the session that made it, "session:<id>"
    scopes       text COLLATE "C" NOT NULL DEFAULT 'read,write',
    namespaces   text COLLATE "C",  -- a JSON array, NULL for no limit
    app          text COLLATE "C",  -- a JSON object, NULL for a key that was made by hand
    expires_at   timestamptz,
    last_used_at timestamptz,
    revoked_at   timestamptz,
    seq          bigint      NOT NULL
);
CREATE INDEX api_keys_by_hash ON api_keys (hash);
CREATE INDEX api_keys_by_owner ON api_keys (owner, seq);

CREATE TABLE grants (
    id         uuid PRIMARY KEY,
    owner      text COLLATE "C" NOT NULL,
    kind       text        NOT NULL,
    token_hash bytea       NOT NULL,
    minted_at  timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    max_uses   integer     NOT NULL,
    used       integer     NOT NULL,
    revoked_at timestamptz,
    minted_by  text COLLATE "C", -- "session:<id>" or "key:<id>"
    namespace  bytea, -- UTF-8 that may hold NUL; NULL for no limit
    seq        bigint      NOT NULL
);
CREATE INDEX grants_by_token ON grants (token_hash);
CREATE INDEX grants_active ON grants (owner, expires_at) WHERE revoked_at IS NULL AND used < max_uses;

CREATE TABLE memories (
    owner                text COLLATE "C" NOT NULL,
    leaf_index           bigint      NOT NULL,
    id                   uuid        NOT NULL,
    leaf_hash            bytea       NOT NULL,
    metadata             text COLLATE "C" NOT NULL,
    sealed               bytea       NOT NULL,
    created_at           timestamptz NOT NULL,
    idempotency_key_hash bytea,
    via                  text COLLATE "C", -- "session:<id>", "key:<id>" or "drop:<id>"
    salt                 text COLLATE "C" NOT NULL DEFAULT 'owner', -- which secret the leaf's salt derives from
    sealing              smallint    NOT NULL DEFAULT 1, -- version of the sealing
    seq                  bigint      NOT NULL,
    PRIMARY KEY (owner, leaf_index),
    CONSTRAINT memories_id UNIQUE (id)
);
CREATE UNIQUE INDEX memories_by_idempotency_key ON memories (owner, idempotency_key_hash)
    WHERE idempotency_key_hash IS NOT NULL;
-- Ciphertext does not compress.
ALTER TABLE memories ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- Which leaves a memory supersedes.
CREATE TABLE corrections (
    owner      text COLLATE "C" NOT NULL,
    leaf_index bigint   NOT NULL, -- superseded
    by_leaf    bigint   NOT NULL,
    position   smallint NOT NULL, -- in the event's list
    seq        bigint   NOT NULL,
    PRIMARY KEY (owner, leaf_index, by_leaf)
);
CREATE INDEX corrections_by_leaf ON corrections (owner, by_leaf, position);

-- Memories that their owners took back, or had forgotten: in no list, search or case. Their
-- rows stay, for leaves and proofs.
CREATE TABLE retractions (
    owner        text COLLATE "C" NOT NULL,
    leaf_index   bigint      NOT NULL,
    forgotten    boolean     NOT NULL, -- the text is unreadable, too
    memory_id    uuid        NOT NULL,
    retracted_at timestamptz NOT NULL,
    seq          bigint      NOT NULL,
    PRIMARY KEY (owner, leaf_index, forgotten)
);
CREATE INDEX retractions_forgotten ON retractions (seq) WHERE forgotten;

-- Owners who had their texts made unreadable: the first leaves have none. Their rows
-- stay, for leaves and proofs.
CREATE TABLE erasures (
    owner     text COLLATE "C" NOT NULL,
    leaves    bigint      NOT NULL,
    erased_at timestamptz NOT NULL,
    seq       bigint      NOT NULL,
    PRIMARY KEY (owner, seq)
);

CREATE TABLE batches (
    id                      uuid PRIMARY KEY,
    owner                   text COLLATE "C" NOT NULL,
    from_size               bigint NOT NULL,
    size                    bigint NOT NULL,
    root                    bytea  NOT NULL,
    state                   text   NOT NULL CHECK (state IN ('cut', 'submitted', 'confirmed', 'failed')),
    cut_at                  timestamptz,
    -- the newest attempt, or the one that was confirmed
    signature               text,
    blockhash               text,
    last_valid_block_height bigint,
    transaction             bytea,
    submitted_at            timestamptz,
    -- read back from the chain
    slot                    bigint,
    cluster                 text,
    program_id              text,
    account                 text,
    confirmed_at            timestamptz,
    failed_at               timestamptz,
    failure                 bytea, -- UTF-8 that may hold NUL
    seq                     bigint NOT NULL
);
CREATE INDEX batches_confirmed ON batches (owner, size, id) WHERE state = 'confirmed';
CREATE INDEX batches_open ON batches (owner, size, id) WHERE state IN ('cut', 'submitted');

CREATE TABLE batch_attempts (
    batch_id                uuid        NOT NULL,
    signature               text COLLATE "C" NOT NULL,
    owner                   text COLLATE "C" NOT NULL,
    blockhash               text        NOT NULL,
    last_valid_block_height bigint      NOT NULL,
    transaction             bytea       NOT NULL,
    submitted_at            timestamptz NOT NULL,
    failed_at               timestamptz,
    failure                 bytea,
    seq                     bigint      NOT NULL,
    PRIMARY KEY (batch_id, signature)
);

CREATE TABLE stake_movements (
    owner      text COLLATE "C" NOT NULL,
    signature  text COLLATE "C" NOT NULL,
    vault      text COLLATE "C" NOT NULL,
    direction  text COLLATE "C" NOT NULL CHECK (direction IN ('deposit', 'withdrawal')),
    -- the how-manieth movement of its vault and direction in its transaction
    ordinal    integer     NOT NULL,
    mint       text        NOT NULL,
    amount     numeric(20) NOT NULL, -- base units, a u64
    slot       bigint      NOT NULL,
    block_time timestamptz NOT NULL,
    seq        bigint      NOT NULL,
    position   integer     NOT NULL, -- of the event in its message
    PRIMARY KEY (signature, vault, direction, ordinal)
);
CREATE INDEX stake_movements_by_owner ON stake_movements (owner, slot, seq, position);

CREATE TABLE tiles (
    owner      text COLLATE "C" NOT NULL,
    level      smallint NOT NULL,
    tile_index bigint   NOT NULL,
    hashes     bytea    NOT NULL CHECK (length(hashes) = 8192), -- 256 hashes, side by side
    root       bytea    NOT NULL CHECK (length(root) = 32),     -- of the full subtree above them
    PRIMARY KEY (owner, level, tile_index)
);
ALTER TABLE tiles ALTER COLUMN hashes SET STORAGE EXTERNAL;
-- +goose StatementEnd
