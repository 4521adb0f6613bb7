-- Memories that their owners took back: in no list, search or case any more. Their
-- rows stay, for leaves and proofs.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE retractions (
    owner        text COLLATE "C" NOT NULL,
    leaf_index   bigint      NOT NULL,
    memory_id    uuid        NOT NULL,
    retracted_at timestamptz NOT NULL,
    seq          bigint      NOT NULL,
    PRIMARY KEY (owner, leaf_index)
);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE retractions;
-- +goose StatementEnd
