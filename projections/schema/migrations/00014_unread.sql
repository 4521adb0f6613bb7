-- Columns that no query reads. The log has what they held.

-- +goose Up
-- +goose StatementBegin
DROP TABLE batch_attempts;
ALTER TABLE batches
    DROP COLUMN from_size,
    DROP COLUMN cut_at,
    DROP COLUMN blockhash,
    DROP COLUMN last_valid_block_height,
    DROP COLUMN transaction,
    DROP COLUMN submitted_at,
    DROP COLUMN failed_at,
    DROP COLUMN failure,
    DROP COLUMN seq;
ALTER TABLE owners DROP COLUMN registered_at;
ALTER TABLE corrections DROP COLUMN seq;
ALTER TABLE retractions DROP COLUMN memory_id, DROP COLUMN retracted_at;
ALTER TABLE erasures DROP COLUMN erased_at;
ALTER TABLE stake_movements DROP COLUMN mint;
-- +goose StatementEnd
