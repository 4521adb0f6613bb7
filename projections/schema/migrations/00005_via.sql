-- How a memory came in, as its event says: "session:<id>", "key:<id>" or
-- "drop:<id>". Events of version 1 do not say it, and neither do their rows. A build
-- from before stops at the first event of version 2.

-- +goose Up
-- +goose StatementBegin
ALTER TABLE memories ADD COLUMN via text COLLATE "C";
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
ALTER TABLE memories DROP COLUMN via;
-- +goose StatementEnd
