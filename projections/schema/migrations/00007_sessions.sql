-- Sessions of the core API can be ended as well: what is alive is looked up for both.

-- +goose Up
-- +goose StatementBegin
DROP INDEX sessions_active;
CREATE INDEX sessions_active ON sessions (owner, expires_at) WHERE revoked_at IS NULL;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP INDEX sessions_active;
CREATE INDEX sessions_active ON sessions (owner, expires_at)
    WHERE audience = 'extension' AND revoked_at IS NULL;
-- +goose StatementEnd
