-- Owners who had their texts made unreadable: which leaves have none any more. Their
-- rows stay, for leaves and proofs.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE erasures (
    owner     text COLLATE "C" NOT NULL,
    leaves    bigint      NOT NULL,
    erased_at timestamptz NOT NULL,
    seq       bigint      NOT NULL,
    PRIMARY KEY (owner, seq)
);
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE erasures;
-- +goose StatementEnd
