-- Which credential minted a grant, and which session made a key: "session:<id>" or
-- "key:<id>". Rows of before do not say it. A build from before stops at the first event
-- that does.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE grants ADD COLUMN minted_by text COLLATE "C";
ALTER TABLE api_keys ADD COLUMN created_by text COLLATE "C";
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE api_keys DROP COLUMN created_by;
ALTER TABLE grants DROP COLUMN minted_by;
-- +goose StatementEnd
