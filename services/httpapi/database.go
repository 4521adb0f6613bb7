package httpapi

import (
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/memory-ledger/ledger/projections/schema"
)

// isDatabaseDown distinguishes a database that can't be reached, or has lost its tables,
// from a wrong query. SQLSTATE classes: 08 connection exception, 53 insufficient
// resources, 57P admin shutdown, crash shutdown, cannot connect now. 42P01 and 3F000: a
// table, or the schema, does not exist. Tables hold derived data and may be thrown away.
// A projector or a rebuild makes missing tables and damaged tables again.
func isDatabaseDown(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "57P") ||
			pg.Code == "42P01" || pg.Code == "3F000" || schema.Damaged(err)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, puddle.ErrClosedPool) ||
		pgconn.SafeToRetry(err)
}
