-- Projectors share the owners by partition: the checkpoint becomes one row for
-- each run of partitions. A build from before fails at its next slice, because
-- the function it calls is gone, and writes nothing.

-- +goose Up
-- +goose StatementBegin
DROP FUNCTION advance_checkpoint(bigint, bigint, timestamptz);

ALTER TABLE checkpoint DROP COLUMN single;
ALTER TABLE checkpoint ADD COLUMN first_partition integer NOT NULL DEFAULT 0;
ALTER TABLE checkpoint ADD COLUMN last_partition integer NOT NULL DEFAULT 255;
ALTER TABLE checkpoint ALTER COLUMN first_partition DROP DEFAULT;
ALTER TABLE checkpoint ALTER COLUMN last_partition DROP DEFAULT;
ALTER TABLE checkpoint ADD PRIMARY KEY (first_partition);
ALTER TABLE checkpoint ADD CONSTRAINT checkpoint_run
    CHECK (0 <= first_partition AND first_partition <= last_partition AND last_partition <= 255);
ALTER TABLE checkpoint ADD CONSTRAINT checkpoint_no_partition_twice
    EXCLUDE USING gist (int4range(first_partition, last_partition, '[]') WITH &&);

-- Without overlaps, 256 partitions are all of them. It is looked at when a
-- transaction that cut or joined rows commits; moving a row's position alone
-- costs nothing here.
CREATE FUNCTION checkpoint_is_whole() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    partitions  bigint;
    generations bigint;
BEGIN
    EXECUTE format('SELECT coalesce(sum(last_partition - first_partition + 1), 0), count(DISTINCT generation) FROM %I.checkpoint', TG_TABLE_SCHEMA)
        INTO partitions, generations;
    IF partitions <> 256 OR generations <> 1 THEN
        RAISE EXCEPTION 'the checkpoint would cover % of 256 partitions, in % generations', partitions, generations
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'checkpoint_is_whole';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER checkpoint_is_whole
    AFTER INSERT OR DELETE OR UPDATE OF generation, first_partition, last_partition ON checkpoint
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION checkpoint_is_whole();

-- advance_checkpoint is the fence against a second projector: a transaction
-- whose author did not know the row fails as a whole. It announces the new
-- position to whoever listens once the transaction commits, as
-- "<generation> <first>-<last> <sequence>".
CREATE FUNCTION advance_checkpoint(of_generation uuid, first_of integer, last_of integer, expected bigint, next bigint, stored timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    UPDATE checkpoint SET seq = next, stored_at = stored
        WHERE first_partition = first_of AND last_partition = last_of AND seq = expected AND generation = of_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkpoint of partitions % to % is not at %', first_of, last_of, expected USING ERRCODE = 'ML001';
    END IF;
    PERFORM pg_notify('position_' || current_schema(),
        of_generation || ' ' || lpad(to_hex(first_of), 2, '0') || '-' || lpad(to_hex(last_of), 2, '0') || ' ' || next);
END
$$;

-- recut_checkpoint puts rows in the place of others: runs are cut, joined, or
-- moved to where they are joined. It fences and announces as
-- advance_checkpoint does.
CREATE FUNCTION recut_checkpoint(of_generation uuid,
    was_first integer[], was_last integer[], was_seq bigint[],
    is_first integer[], is_last integer[], is_seq bigint[], is_stored timestamptz[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    taken bigint;
BEGIN
    DELETE FROM checkpoint c USING unnest(was_first, was_last, was_seq) AS was (first_of, last_of, at)
        WHERE c.generation = of_generation AND c.first_partition = was.first_of AND c.last_partition = was.last_of AND c.seq = was.at;
    GET DIAGNOSTICS taken = ROW_COUNT;
    IF taken <> cardinality(was_first) THEN
        RAISE EXCEPTION 'the checkpoint of partitions % to % is not as it was', was_first[1], was_last[cardinality(was_last)] USING ERRCODE = 'ML001';
    END IF;
    INSERT INTO checkpoint (generation, first_partition, last_partition, seq, stored_at)
        SELECT of_generation, a.first_of, a.last_of, a.at, a.stored FROM unnest(is_first, is_last, is_seq, is_stored) AS a (first_of, last_of, at, stored);
    PERFORM pg_notify('position_' || current_schema(),
        of_generation || ' ' || lpad(to_hex(a.first_of), 2, '0') || '-' || lpad(to_hex(a.last_of), 2, '0') || ' ' || a.at)
        FROM unnest(is_first, is_last, is_seq) AS a (first_of, last_of, at);
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DROP FUNCTION recut_checkpoint(uuid, integer[], integer[], bigint[], integer[], integer[], bigint[], timestamptz[]);
DROP FUNCTION advance_checkpoint(uuid, integer, integer, bigint, bigint, timestamptz);
DROP TRIGGER checkpoint_is_whole ON checkpoint;
DROP FUNCTION checkpoint_is_whole();
-- Fails where projectors stand at different sequences: let one have all
-- partitions first.
ALTER TABLE checkpoint DROP CONSTRAINT checkpoint_no_partition_twice;
ALTER TABLE checkpoint DROP COLUMN first_partition, DROP COLUMN last_partition;
ALTER TABLE checkpoint ADD COLUMN single boolean PRIMARY KEY DEFAULT true CHECK (single);
CREATE FUNCTION advance_checkpoint(expected bigint, next bigint, stored timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    current_generation uuid;
BEGIN
    UPDATE checkpoint SET seq = next, stored_at = stored
        WHERE seq = expected RETURNING generation INTO current_generation;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the checkpoint is not at %', expected USING ERRCODE = 'ML001';
    END IF;
    PERFORM pg_notify('position_' || current_schema(), current_generation || ' ' || next);
END
$$;
-- +goose StatementEnd
