-- What exports say of memories that were imported, and the imports themselves. No earlier
-- event has either, so there is nothing to fill.

-- +goose Up
ALTER TABLE memories
    ADD COLUMN imported_id  uuid,
    ADD COLUMN imported_at  timestamptz,
    ADD COLUMN imported_via text COLLATE "C";
-- Not unique: what an export says of ids, nothing proves.
CREATE INDEX memories_by_imported_id ON memories (owner, imported_id) WHERE imported_id IS NOT NULL;

CREATE TABLE imports (
    owner    text COLLATE "C" NOT NULL,
    root     bytea       NOT NULL,
    size     bigint      NOT NULL,
    ended_at timestamptz, -- NULL: no other memory may be written
    seq      bigint      NOT NULL,
    PRIMARY KEY (owner, seq)
);
