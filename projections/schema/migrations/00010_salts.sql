-- Which secret a leaf's salt derives from: "owner", or "guest" for an API key that may not
-- read. All memories of before have the owner's. A build from before stops at the first
-- event of version 3.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE memories ADD COLUMN salt text COLLATE "C" NOT NULL DEFAULT 'owner';
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE memories DROP COLUMN salt;
-- +goose StatementEnd
