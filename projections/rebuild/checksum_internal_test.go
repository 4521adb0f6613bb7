package rebuild

import (
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/memory-ledger/ledger/infra/localpostgres/pgtest"
)

// A change in a column of any type that the read models use, or may use, changes the
// checksum. So does moving a value to another column, or changing it to NULL.
func TestEveryColumnIsInTheChecksum(t *testing.T) {
	t.Parallel()
	conn, err := pgx.Connect(t.Context(), pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	values := []struct{ kind, one, other string }{
		{`text COLLATE "C"`, `'{}'`, `'{} '`},
		{`text`, `''`, `NULL`},
		{`bytea`, `'\x00'`, `'\x01'`},
		{`bytea`, `'\x00'`, `'\x0000'`},
		{`bytea`, `''`, `NULL`},
		{`uuid`, `'00000000-0000-0000-0000-000000000001'`, `'00000000-0000-0000-0000-000000000000'`},
		{`boolean`, `true`, `false`},
		{`smallint`, `1`, `2`},
		{`integer`, `1`, `-1`},
		{`bigint`, `1`, `4294967297`},
		{`bigint`, `0`, `NULL`},
		{`timestamptz`, `'2026-01-01 00:00:00Z'`, `'2026-01-01 00:00:00.000001Z'`},
		{`numeric(20)`, `18446744073709551615`, `18446744073709551614`},
		{`numeric`, `1.0`, `1.00`}, // equal to PostgreSQL
		{`numeric[]`, `ARRAY[1.0]`, `ARRAY[1.00]`},
		{`jsonb`, `'{"a":1}'`, `'{"a":2}'`},
		{`tsvector`, `'a:1'`, `'a:2'`}, // has no hash
		{`double precision`, `0`, `'-0'`},
	}
	table := `CREATE TABLE public.checked (first bigint`
	row := `INSERT INTO checked VALUES (1`
	for i, v := range values {
		table += fmt.Sprintf(`, "Column %d" %s`, i, v.kind)
		row += `, ` + v.one
	}
	for _, sql := range []string{table + `)`, row + `)`} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	sum := func() (answer [2]string) {
		t.Helper()
		statement, err := checksum(t.Context(), conn, "public", "checked")
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), statement).Scan(&answer[0], &answer[1]); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
		return answer
	}
	seen := [][2]string{sum()}
	for i, v := range values {
		for _, value := range []string{v.other, v.one} {
			if _, err := conn.Exec(t.Context(), fmt.Sprintf(`UPDATE checked SET "Column %d" = %s`, i, value)); err != nil {
				t.Fatal(err)
			}
			if value == v.one && sum() != seen[0] {
				t.Errorf("%s: the checksum of the same row is another", v.kind)
			} else if value == v.other && slices.Contains(seen, sum()) {
				t.Errorf("%s: %s and %s have the same checksum", v.kind, v.one, v.other)
			}
		}
	}
	if _, err := conn.Exec(t.Context(), `INSERT INTO checked TABLE checked`); err != nil {
		t.Fatal(err)
	}
	if twice := sum(); twice[0] != "2" || slices.Contains(seen, twice) {
		t.Errorf("the row twice: %v", twice)
	}
}
