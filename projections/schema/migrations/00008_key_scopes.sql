-- What a key may do, "read,write", and until when. Keys of before may read and write. A
-- build from before stops at the first key of version 2.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE api_keys ADD COLUMN scopes text COLLATE "C" NOT NULL DEFAULT 'read,write';
ALTER TABLE api_keys ADD COLUMN expires_at timestamptz;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE api_keys DROP COLUMN expires_at;
ALTER TABLE api_keys DROP COLUMN scopes;
-- +goose StatementEnd
