-- The checkpoint as the migrations of the read models leave it, for a schema whose
-- tables are a cache and need no migrations. TestCheckpointSQL compares the two.
CREATE TABLE checkpoint (
    single     boolean PRIMARY KEY DEFAULT true CHECK (single),
    -- Another database, or a schema that was built anew, has another
    -- generation: positions are comparable within one only.
    generation uuid        NOT NULL DEFAULT gen_random_uuid(),
    seq        bigint      NOT NULL CHECK (seq >= 0),
    stored_at  timestamptz -- when the log stored the message at seq
) WITH (fillfactor = 10);
INSERT INTO checkpoint (seq) VALUES (0);

-- advance_checkpoint is the fence against a second projector: a transaction
-- whose author did not know the checkpoint fails as a whole. It announces the
-- new position to whoever listens once the transaction commits.
CREATE FUNCTION advance_checkpoint(of_generation uuid, expected bigint, next bigint, stored timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE checkpoint SET seq = next, stored_at = stored WHERE seq = expected AND generation = of_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkpoint is not at %', expected USING ERRCODE = 'ML001';
    END IF;
    PERFORM pg_notify('position_' || current_schema(), of_generation || ' ' || next);
END
$$;
