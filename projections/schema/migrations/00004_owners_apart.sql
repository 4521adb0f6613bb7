-- An owner's row says what the memories do not: how many leaves there are, and
-- what the newest brought, their own rows tell. Until now each memory updated
-- its owner's row, which took the projector and PostgreSQL a tenth of all that a
-- write took. A build from before fails at its next slice, because the columns
-- that it names are gone, and writes nothing.

-- +goose Up
-- +goose StatementBegin
-- No slice may come in between, or the sums would not be of one moment.
LOCK TABLE owners, memories IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE owners ADD COLUMN others bigint; -- messages of the ledger family less the leaves
ALTER TABLE owners ALTER COLUMN last_seq DROP NOT NULL; -- NULL: the newest leaf's, or none
UPDATE owners o SET others = version - leaf_count,
    last_seq = CASE WHEN last_seq > coalesce((SELECT seq FROM memories m WHERE m.owner = o.owner ORDER BY leaf_index DESC LIMIT 1), 0)
        THEN last_seq END;
ALTER TABLE owners ALTER COLUMN others SET NOT NULL, DROP COLUMN version, DROP COLUMN leaf_count; -- and with it owners_leaves_continue
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
LOCK TABLE owners, memories IN SHARE ROW EXCLUSIVE MODE;
ALTER TABLE owners ADD COLUMN version bigint, ADD COLUMN leaf_count bigint CONSTRAINT owners_leaves_continue CHECK (leaf_count >= 0);
UPDATE owners o SET leaf_count = coalesce((SELECT leaf_index + 1 FROM memories m WHERE m.owner = o.owner ORDER BY leaf_index DESC LIMIT 1), 0),
    last_seq = coalesce(last_seq, (SELECT seq FROM memories m WHERE m.owner = o.owner ORDER BY leaf_index DESC LIMIT 1), 0);
UPDATE owners SET version = others + leaf_count;
ALTER TABLE owners ALTER COLUMN version SET NOT NULL, ALTER COLUMN leaf_count SET NOT NULL, ALTER COLUMN last_seq SET NOT NULL, DROP COLUMN others;
-- +goose StatementEnd
