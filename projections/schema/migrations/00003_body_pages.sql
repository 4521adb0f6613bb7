-- Bodies of 256 leaves side by side, for those who look through all of an
-- owner's. Package bodypages says what a page holds and writes it from then on;
-- this is the same statement for the leaves that are there. A page that is
-- missing costs time, never an answer.

-- +goose Up
-- +goose StatementBegin
CREATE TABLE body_pages (
    owner  text COLLATE "C" NOT NULL,
    page   bigint NOT NULL, -- leaves page*256 to page*256+255
    -- Bytes 5 to 8 are the number of leaves: a page is written when all of its
    -- leaves are there, or not at all.
    bodies bytea NOT NULL CONSTRAINT body_pages_whole CHECK (substr(bodies, 5, 4) = '\x00000100'),
    PRIMARY KEY (owner, page)
);
-- Ciphertext does not compress.
ALTER TABLE body_pages ALTER COLUMN bodies SET STORAGE EXTERNAL;

-- No slice may come in between: its pages would be nobody's. The order is that
-- of the groups first, so that nothing sorts the leaves again, by page alone.
LOCK TABLE memories IN SHARE MODE;
INSERT INTO body_pages (owner, page, bodies)
SELECT owner, page, '\x4d4c5031'::bytea || int4send(count(*)::int) || int8send(page * 256)
    || string_agg(uuid_send(id), '')
    || string_agg(int4send(CASE WHEN length(sealed) <= 8192 THEN length(sealed) ELSE -1 END), '')
    || string_agg(CASE WHEN length(sealed) <= 8192 THEN sealed ELSE '' END, '')
FROM (SELECT owner, leaf_index / 256 AS page, id, sealed FROM memories ORDER BY owner, page, leaf_index) AS leaves
GROUP BY owner, page HAVING count(*) = 256;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP TABLE body_pages;
-- +goose StatementEnd
