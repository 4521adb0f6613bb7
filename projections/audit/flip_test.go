package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/projections/audit"
	"github.com/memory-ledger/ledger/projections/internal/fixture"
	"github.com/memory-ledger/ledger/projections/readmodel"
)

// flips has, for each column type, an expression that changes a value slightly.
var flips = map[string]string{
	"text":                     `chr(ascii(left(%[1]s, 1)) # 1) || substr(%[1]s, 2)`,
	"bytea":                    `set_bit(%[1]s, 3, 1 - get_bit(%[1]s, 3))`,
	"uuid":                     `(translate(left(%[1]s::text, 1), '0123456789abcdef', '1032547698badcfe') || substr(%[1]s::text, 2))::uuid`,
	"bigint":                   `%[1]s # 1`,
	"integer":                  `%[1]s # 1`,
	"smallint":                 `%[1]s + 1`,
	"boolean":                  `NOT %[1]s`,
	"numeric":                  `%[1]s - 1`,
	"timestamp with time zone": `%[1]s + interval '1 microsecond'`,
}

// special has expressions for columns that need a special change, such as columns that
// accept only certain texts.
var special = map[string]string{
	"memories.leaf_index":       `leaf_index # 4096`,
	"batches.state":             `CASE state WHEN 'cut' THEN 'failed' ELSE 'cut' END`,
	"stake_movements.direction": `CASE direction WHEN 'deposit' THEN 'withdrawal' ELSE 'deposit' END`,
}

type column struct{ table, name, kind string }

func columns(t *testing.T, pool *pgxpool.Pool) []column {
	t.Helper()
	var tables []string
	for _, p := range readmodel.All() {
		tables = append(tables, p.Tables()...)
	}
	rows, err := pool.Query(t.Context(), `SELECT table_name, column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = ANY($1) ORDER BY table_name, ordinal_position`, tables)
	must(t, err)
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c column, err error) {
		err = row.Scan(&c.table, &c.name, &c.kind)
		return c, err
	})
	if err != nil || len(all) < 60 {
		t.Fatalf("%d columns, %v", len(all), err)
	}
	return all
}

// TestEveryFlippedBitIsFound: the audit finds a flipped bit in any column of any table,
// tiles included. The finding names the table, column, owner, and the leaf if there is
// one.
func TestEveryFlippedBitIsFound(t *testing.T) {
	slow(t)
	t.Parallel()
	// The newest message of the first two owners holds a leaf, so last_seq is NULL in
	// their rows. The third and fourth owners have a last_seq.
	third := fixture.NumberedActor(3).Say(&events.OwnerRegistered{UserID: fixture.UUID()})
	fourth := fixture.NumberedActor(4).Say(&events.OwnerErased{})
	pool, log := projected(t, append(slices.Concat(story(1), story(2)), third, fourth)...)
	for _, c := range columns(t, pool) {
		change := flips[c.kind]
		if change == "" {
			t.Fatalf("no way to flip a bit of %s %s", c.table, c.kind)
		}
		change = fmt.Sprintf(change, c.name)
		if s := special[c.table+"."+c.name]; s != "" {
			change = s
		}
		damaged(t, pool, c.table, `UPDATE `+c.table+` SET `+c.name+` = `+change+` WHERE ctid = (
			SELECT ctid FROM `+c.table+` WHERE `+c.name+` IS NOT NULL ORDER BY md5(ctid::text) LIMIT 1)`, func() {
			found, _ := verify(t, audit.Config{Log: log.Replayed(), Pool: pool})
			if !named(found, c) {
				t.Errorf("%s.%s: found %v", c.table, c.name, found)
			}
		})
	}
}

// damaged changes a table while f runs, and restores the table afterwards.
func damaged(t *testing.T, pool *pgxpool.Pool, table, change string, f func()) {
	t.Helper()
	exec := func(sql string) int64 {
		t.Helper()
		tag, err := pool.Exec(t.Context(), sql)
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return tag.RowsAffected()
	}
	exec(`CREATE TABLE kept AS TABLE ` + table)
	if n := exec(change); n < 1 {
		t.Fatalf("%s changed %d rows: story must make a row with a value there", change, n)
	}
	f()
	exec(`DELETE FROM ` + table)
	exec(`INSERT INTO ` + table + ` TABLE kept`)
	exec(`DROP TABLE kept`)
}

// named reports whether a finding names the changed column. If a row's key was changed,
// the audit reports one missing row and one extra row.
func named(found []audit.Finding, c column) bool {
	return slices.ContainsFunc(found, func(f audit.Finding) bool {
		ok := f.Table == c.table && f.Owner != "" && f.Detail != "" && f.Row != ""
		if c.table == "memories" {
			ok = ok && f.LeafIndex != nil
		}
		return ok && (f.Column == c.name || strings.Contains(f.Detail, "missing"))
	})
}

func TestRowsTakenAndAddedAreFound(t *testing.T) {
	slow(t)
	t.Parallel()
	pool, log := projected(t, story(1)...)
	stranger := fixture.NumberedActor(77).Owner
	for _, c := range []struct{ table, change, detail string }{
		{"memories", `DELETE FROM memories WHERE leaf_index = 280`, "missing"},
		{"memories", `DELETE FROM memories`, "missing"},
		{"memories", `INSERT INTO memories (owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, salt, seq) SELECT owner, 300, gen_random_uuid(), leaf_hash, metadata, sealed, created_at, salt, seq FROM memories WHERE leaf_index = 1`, "no event"},
		{"memories", fmt.Sprintf(`INSERT INTO memories (owner, leaf_index, id, leaf_hash, metadata, sealed, created_at, salt, seq) SELECT '%s', 0, gen_random_uuid(), leaf_hash, metadata, sealed, created_at, salt, seq FROM memories WHERE leaf_index = 1`, stranger), "no event"},
		{"memories", `UPDATE memories SET leaf_index = -1 WHERE leaf_index = 5`, "missing"},
		{"tiles", `DELETE FROM tiles WHERE tile_index = 0`, "missing"},
		{"tiles", `INSERT INTO tiles SELECT owner, 1, 0, hashes, root FROM tiles WHERE tile_index = 0`, "no such"},
		{"tiles", `INSERT INTO tiles SELECT 'not.*.>an owner', level, tile_index, hashes, root FROM tiles WHERE tile_index = 0`, "no such"},
		{"owners", `DELETE FROM owners`, "missing"},
		{"grants", `INSERT INTO grants SELECT gen_random_uuid(), owner, kind, token_hash, minted_at, expires_at, max_uses, used, revoked_at, minted_by, namespace, seq FROM grants LIMIT 1`, "no event"},
	} {
		damaged(t, pool, c.table, c.change, func() {
			found, _ := verify(t, audit.Config{Log: log.Replayed(), Pool: pool})
			ok := slices.ContainsFunc(found, func(f audit.Finding) bool { return f.Table == c.table && strings.Contains(f.Detail, c.detail) })
			if !ok {
				t.Errorf("%s: found %v", c.change, found)
			}
		})
	}
}
