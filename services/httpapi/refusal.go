// Package httpapi is the common part of the two HTTP APIs: it reads requests, turns
// errors into answers, counts and traces requests, and serves the operational routes.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/memory-ledger/ledger/anchoring/staking/lots"
	"github.com/memory-ledger/ledger/events/eventlog"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/projections/fence"
	"github.com/memory-ledger/ledger/projections/schema"
	"github.com/memory-ledger/ledger/projections/tree"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/command"
	"github.com/memory-ledger/ledger/services/feed"
	"github.com/memory-ledger/ledger/services/grant"
	"github.com/memory-ledger/ledger/services/httpapi/connect"
	"github.com/memory-ledger/ledger/services/keystore"
	"github.com/memory-ledger/ledger/services/memory"
	"github.com/memory-ledger/ledger/services/oauth"
	"github.com/memory-ledger/ledger/services/quota"
	"github.com/memory-ledger/ledger/services/signin"
)

// Refusal is an answer other than success, decided by the HTTP layer itself.
type Refusal struct {
	Status  int
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func Refuse(status int, message string) error { return &Refusal{status, message} }

func tooLarge(most int64) error {
	return &Refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("body is larger than %d bytes", most)}
}

func BadRequest(message string) error { return &Refusal{http.StatusBadRequest, message} }

// row maps a domain error to an answer. An empty message means the error's own text,
// which must then be safe to show.
type row struct {
	err     error
	status  int
	message string
}

const (
	messageUncertain = "the write may or may not have been stored"
	messageRepeat    = messageUncertain + "; repeat it with the same Idempotency-Key"
	messageBusy      = "temporarily unavailable; try again"
	messageOlder     = "the log is older than the read models: nothing is read or written until one of them is restored"
)

// table is the one place where domain errors become HTTP. The first row that
// matches wins.
var table = []row{
	{access.ErrUnauthenticated, http.StatusUnauthorized, "missing or invalid credential"},
	{access.ErrScope, http.StatusForbidden, ""},
	{access.ErrLimited, http.StatusForbidden, ""},
	{command.ErrCredentialDead, http.StatusUnauthorized, "missing or invalid credential"},

	{oauth.ErrBusy, http.StatusServiceUnavailable, messageBusy},
	{connect.ErrCallback, http.StatusBadRequest, ""},
	{signin.ErrPublicKey, http.StatusBadRequest, "publicKey must be 32 bytes in base58"},
	{signin.ErrSignatureForm, http.StatusBadRequest, "signature must be 64 bytes"},
	{signin.ErrPurpose, http.StatusBadRequest, ""},
	{signin.ErrMalformed, http.StatusBadRequest, ""},
	{signin.ErrAddress, http.StatusBadRequest, ""},
	{signin.ErrRefused, http.StatusUnauthorized, ""},
	{signin.ErrClosed, http.StatusForbidden, ""},

	{memory.ErrNotFound, http.StatusNotFound, ""},
	{memory.ErrRetracted, http.StatusGone, ""},
	{memory.ErrNotAlone, http.StatusConflict, ""},
	{keystore.ErrTooManyForgotten, http.StatusConflict, keystore.ErrTooManyForgotten.Error()},
	{command.ErrImporting, http.StatusConflict, ""},
	{command.ErrImportEnded, http.StatusConflict, "the import ended meanwhile: it was given up, or another request completed it"},
	{command.ErrNotPrefix, http.StatusConflict, command.ErrNotPrefix.Error()},
	{command.ErrNoImport, http.StatusNotFound, ""},
	{memory.ErrImportTooBig, http.StatusRequestEntityTooLarge, ""},
	{memory.ErrEmptyContent, http.StatusBadRequest, ""},
	{memory.ErrSource, http.StatusBadRequest, ""},
	{memory.ErrOccurredAt, http.StatusBadRequest, ""},
	{memory.ErrTags, http.StatusBadRequest, ""},
	{memory.ErrNamespace, http.StatusBadRequest, ""},
	{memory.ErrNamespaces, http.StatusBadRequest, ""},
	{memory.ErrNamespaceNeeded, http.StatusBadRequest, ""},
	{memory.ErrSupersedes, http.StatusBadRequest, ""},
	{memory.ErrDiffers, http.StatusBadRequest, ""},
	{memory.ErrOutside, http.StatusForbidden, ""},
	{command.ErrSupersededGone, http.StatusGone, ""},
	{command.ErrTooManySuperseded, http.StatusRequestEntityTooLarge, ""},
	{memory.ErrContentTooLarge, http.StatusRequestEntityTooLarge, ""},
	{memory.ErrMetadataTooLarge, http.StatusRequestEntityTooLarge, ""},
	{memory.ErrBatchCount, http.StatusBadRequest, ""},
	{memory.ErrBatchTooLarge, http.StatusRequestEntityTooLarge, ""},
	{memory.ErrExport, http.StatusBadRequest, ""},
	{memory.ErrRange, http.StatusBadRequest, ""},
	{memory.ErrCursor, http.StatusBadRequest, ""},
	{canonical.ErrNotObject, http.StatusBadRequest, "metadata must be a JSON object"},
	{canonical.ErrTooDeep, http.StatusBadRequest, "metadata is nested too deeply"},
	{canonical.ErrNumber, http.StatusBadRequest, "metadata holds a number outside the range of a double"},
	{canonical.ErrNoncharacter, http.StatusBadRequest, "metadata holds a Unicode noncharacter, which I-JSON forbids"},
	{canonical.ErrSyntax, http.StatusBadRequest, "metadata is not valid I-JSON"},

	{command.ErrIdempotencyMismatch, http.StatusUnprocessableEntity, ""},
	{command.ErrIdempotencyErased, http.StatusUnprocessableEntity, ""},
	{command.ErrKeyUnknown, http.StatusNotFound, "API key not found"},
	{command.ErrSessionUnknown, http.StatusNotFound, "session not found"},
	{command.ErrAccessAlive, http.StatusServiceUnavailable, messageBusy}, // new sign-ins keep arriving
	{command.ErrTooManyKeys, http.StatusConflict, ""},
	{quota.ErrExceeded, http.StatusTooManyRequests, ""},
	{grant.ErrNotFound, http.StatusNotFound, "not found"},
	{grant.ErrDead, http.StatusNotFound, "not found"},

	{lots.ErrAmount, http.StatusBadRequest, ""},
	{lots.ErrMoreThanStaked, http.StatusBadRequest, ""},
	{lots.ErrBelowMinimum, http.StatusBadRequest, ""},
	{lots.ErrBalanceUnknown, http.StatusServiceUnavailable, lots.ErrBalanceUnknown.Error()},
	{lots.ErrChainUnreadable, http.StatusServiceUnavailable, lots.ErrChainUnreadable.Error()},

	{eventlog.ErrUncertain, http.StatusServiceUnavailable, messageUncertain},
	{eventlog.ErrUnavailable, http.StatusServiceUnavailable, messageBusy},
	{command.ErrOverloaded, http.StatusServiceUnavailable, messageBusy},
	{errBodies, http.StatusServiceUnavailable, messageBusy},
	{memory.ErrBusy, http.StatusServiceUnavailable, messageBusy},
	{feed.ErrCursor, http.StatusBadRequest, ""},
	{feed.ErrTooMany, http.StatusServiceUnavailable, messageBusy},
	{memory.ErrDamaged, http.StatusServiceUnavailable, memory.ErrDamaged.Error()},
	{tree.ErrIncomplete, http.StatusServiceUnavailable, memory.ErrDamaged.Error()}, // no row has a leaf's owner and index
	{memory.ErrAbandoned, statusGone, ""},
	{eventlog.ErrContradiction, http.StatusServiceUnavailable, messageBusy},
	{fence.ErrBehind, http.StatusServiceUnavailable, messageBusy},
	{fence.ErrLogShort, http.StatusServiceUnavailable, messageOlder},
	{command.ErrKeyErased, http.StatusServiceUnavailable, messageBusy}, // Watch drops the key within a second
	{keystore.ErrErased, http.StatusServiceUnavailable, messageBusy},   // a sign-in at the core API destroys the key
	{keystore.ErrUnavailable, http.StatusServiceUnavailable, messageBusy},
	{signin.ErrUnavailable, http.StatusServiceUnavailable, messageBusy},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, messageBusy},
	{context.Canceled, http.StatusServiceUnavailable, messageBusy}, // an import while the service stops

	{keystore.ErrForgotten, http.StatusGone, "the key to this content was destroyed"},
	{keystore.ErrNoKey, http.StatusServiceUnavailable, messageBusy},     // never 410, which is final
	{keystore.ErrMasterKey, http.StatusServiceUnavailable, messageBusy}, // while a rotation goes on, another replica may have it
}

func Answer(err error) (status int, message string) {
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return refusal.Status, refusal.Message
	}
	if app, ok := errors.AsType[*oauth.Error](err); ok {
		return http.StatusBadRequest, app.Description
	}
	if framework, ok := errors.AsType[*fiber.Error](err); ok {
		return framework.Code, httpMessage(framework.Code)
	}
	if r, ok := rowOf(err); ok {
		if r.message == "" {
			return r.status, err.Error()
		}
		return r.status, r.message
	}
	if isDatabaseDown(err) {
		return http.StatusServiceUnavailable, messageBusy
	}
	return http.StatusInternalServerError, "internal error"
}

// oauthCode returns the code of RFC 6749 for an error on a route of apps.
func oauthCode(err error, status int) string {
	var app *oauth.Error
	switch {
	case errors.As(err, &app):
		return app.Code
	case status == http.StatusInternalServerError:
		return "server_error"
	case status == http.StatusUnauthorized:
		return "invalid_token"
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return "temporarily_unavailable"
	}
	return "invalid_request"
}

// rowOf returns the first row of the table that matches.
func rowOf(err error) (row, bool) {
	for _, r := range table {
		if errors.Is(err, r.err) {
			return r, true
		}
	}
	return row{}, false
}

func httpMessage(status int) string {
	switch status {
	case http.StatusNotFound:
		return "no such route"
	case http.StatusMethodNotAllowed:
		return "method not allowed"
	case http.StatusRequestHeaderFieldsTooLarge:
		return "request headers are too large"
	case http.StatusRequestTimeout:
		return "request took too long to arrive"
	}
	return http.StatusText(status)
}

// isDatabaseDown distinguishes a database that can't be reached, or has lost its tables,
// from a wrong query. SQLSTATE classes: 08 connection exception, 53 insufficient
// resources, 57P admin shutdown, crash shutdown, cannot connect now. 42P01 and 3F000: a
// table, or the schema, does not exist. Tables hold derived data and may be thrown away.
// A projector or a rebuild makes missing tables and damaged tables again.
func isDatabaseDown(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(pg.Code, "08") || strings.HasPrefix(pg.Code, "53") || strings.HasPrefix(pg.Code, "57P") ||
			pg.Code == "42P01" || pg.Code == "3F000" || schema.Damaged(err)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, puddle.ErrClosedPool) ||
		pgconn.SafeToRetry(err)
}
