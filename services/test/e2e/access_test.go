package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memory-ledger/ledger/services/signin"
	"github.com/memory-ledger/ledger/services/test/contracttest"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// accessTable is the document whose table TestWhoMayDoWhat writes.
const accessTable = "../../../docs/access.md"

// columns are the credentials. On a route with a token in its path, a grant column puts
// its token there; the other columns use an unknown token.
var columns = []string{
	"none", "core session", "extension session", "key", "key: read", "key: write", "key: retract", "drop token", "case token",
}

// dead are credentials that open only what is open without any.
var dead = []string{"ended session", "expired key", "revoked key"}

// bystander is a wallet with everything that a route may act on.
type bystander struct {
	*stacktest.Stack
	t      *testing.T
	wallet stacktest.Wallet
	tokens map[string]string // only credentials that no route uses up
}

func newBystander(t *testing.T) *bystander {
	b := &bystander{stacktest.Start(t, stacktest.Options{}), t, stacktest.NewWallet(), map[string]string{}}
	core := b.Core[0]
	owner := core.SignIn(b.wallet)
	for column, scopes := range map[string][]string{"key": nil, "key: read": {"read"}, "key: write": {"write"}, "key: retract": {"retract"}, "revoked key": nil, "expired key": nil} {
		id, key := makeKey(core, owner, scopes...)
		b.tokens[column] = key
		if column == "revoked key" {
			core.Expect(200, "DELETE", "/keys/"+id, nil, owner)
		}
	}
	base, projected := b.Beside(t)
	noErr(t, projected.WaitAll(t.Context()))
	expired := signin.HashToken(b.tokens["expired key"])
	noErr(t, errorOf(base.Pool.Exec(t.Context(), `UPDATE api_keys SET expires_at = now() WHERE hash = $1`, expired[:])))
	return b
}

// token returns a credential of the column: live, unless the column is for a dead one.
func (b *bystander) token(column string, api contracttest.API) string {
	core, extension := b.Core[0], b.Extension[0]
	switch column {
	case "core session":
		return core.Token(b.wallet)
	case "extension session":
		return extension.Token(b.wallet)
	case "ended session":
		c := map[contracttest.API]*stacktest.Client{contracttest.Core: core, contracttest.Extension: extension}[api]
		token := c.Token(b.wallet)
		core.Expect(200, "DELETE", "/auth/sessions", nil, core.SignIn(b.wallet))
		return token
	case "drop token":
		return tokenOf(extension.Expect(201, "POST", "/memory-drops", nil, extension.SignIn(b.wallet)))
	case "case token":
		return tokenOf(extension.Expect(201, "POST", "/agent-cases", nil, extension.SignIn(b.wallet)))
	}
	return b.tokens[column]
}

// pathOf fills in a path with the wallet's resources. It makes them for this request.
func (b *bystander) pathOf(op contracttest.Operation, token string) string {
	core, extension := b.Core[0], b.Extension[0]
	if strings.Contains(op.Path, "{token}") {
		if token == "" {
			token = map[bool]string{true: "svc_case_", false: "svc_drop_"}[strings.HasPrefix(op.Path, "/agent-cases")] + strings.Repeat("A", 43)
		}
		return strings.Replace(op.Path, "{token}", token, 1)
	}
	if op.ID == "allowApp" || op.ID == "showConsent" {
		return newApp(core).path()
	}
	if !strings.Contains(op.Path, "{id}") {
		return parameters.Replace(op.Path) + queryOf(op)
	}
	id := ""
	kind, _, _ := strings.Cut(op.Path, "/{id}")
	switch kind {
	case "/memories":
		id = core.Expect(201, "POST", "/memories", map[string]any{"content": "x"}, core.SignIn(b.wallet)).Text("id")
	case "/keys":
		id, _ = makeKey(core, core.SignIn(b.wallet))
	case "/auth/sessions":
		id = currentSession(b.t, core, core.SignIn(b.wallet)) // not of the tested credential
	case "/grants":
		id = extension.Expect(201, "POST", "/memory-drops", nil, extension.SignIn(b.wallet)).Text("id")
	default:
		id = extension.Expect(201, "POST", kind, nil, extension.SignIn(b.wallet)).Text("id")
	}
	return strings.Replace(op.Path, "{id}", id, 1)
}

// ask returns the status of an operation that is called with a credential.
func (b *bystander) ask(api contracttest.API, op contracttest.Operation, column string) int {
	c := map[contracttest.API]*stacktest.Client{contracttest.Core: b.Core[0], contracttest.Extension: b.Extension[0]}[api]
	token, inPath := b.token(column, api), ""
	var headers []stacktest.Header
	switch {
	case strings.HasSuffix(column, " token") && strings.Contains(op.Path, "{token}"):
		inPath = token
	case token != "":
		headers = append(headers, stacktest.Bearer(token))
	}
	body := goodBody(op, b.wallet)
	switch op.ID {
	case "createSession":
		body = b.wallet.Answer(c.Expect(200, "POST", "/auth/challenge", map[string]any{"publicKey": b.wallet.PublicKey}).Text("message"))
	case "eraseOwner":
		body = b.wallet.Answer(someChallenge(b.wallet)) // a challenge of another service
	case "exchangeToken":
		a := newApp(c)
		body = a.form(a.allow(c.SignIn(b.wallet), map[string]any{}).Get("code"))
	case "giveUpImport":
		if column == "core session" {
			breakOff(b.t, b.Stack, b.wallet)
		}
	case "getHome", "getDashboardHome":
		headers = append(headers, stacktest.With("Accept", "text/html"))
	case "callAgentTools":
		headers = append(headers, stacktest.With("Accept", "application/json, text/event-stream"))
	}
	return c.Do(op.Method, b.pathOf(op, inPath), body, append(headers, headersOf(op))...).Status
}

// TestWhoMayDoWhat calls every operation of both APIs with every kind of credential. It
// compares the results with the committed table, and with the operation's security in the
// documents. GOLDEN=write writes the table.
func TestWhoMayDoWhat(t *testing.T) {
	slow(t)
	t.Parallel()
	b := newBystander(t)
	var table strings.Builder
	for _, api := range []contracttest.API{contracttest.Core, contracttest.Extension} {
		operations, err := contracttest.Operations(api)
		noErr(t, err)
		slices.SortFunc(operations, func(x, y contracttest.Operation) int {
			return strings.Compare(x.Path+" "+x.Method, y.Path+" "+y.Method)
		})
		fmt.Fprintf(&table, "| %s | %s |\n|---|%s\n", api, strings.Join(columns, " | "), strings.Repeat(":-:|", len(columns)))
		routes, rows := map[string][]string{}, []string{} // routes with the same answers share a row
		for _, op := range operations {
			if op.Method == "*" {
				continue
			}
			var cells []string
			for _, column := range slices.Concat(columns, dead) {
				status := b.ask(api, op, column)
				if letIn := status != 401 && status != 403; !strings.Contains(op.Path, "{token}") && letIn != permits(op, api, column) {
					t.Errorf("%s %s %s with %s: status %d, the document says otherwise", api, op.Method, op.Path, column, status)
				}
				if !slices.Contains(dead, column) {
					cells = append(cells, cell(status))
				} else if cell(status) != cells[0] {
					t.Errorf("%s %s %s with %s: status %d, without a credential %s", api, op.Method, op.Path, column, status, cells[0])
				}
			}
			row := strings.Join(cells, " | ")
			if routes[row] == nil {
				rows = append(rows, row)
			}
			routes[row] = append(routes[row], fmt.Sprintf("%s `%s`", op.Method, op.Path))
		}
		for _, row := range rows {
			fmt.Fprintf(&table, "| %s | %s |\n", strings.Join(routes[row], ", "), row)
		}
		table.WriteByte('\n')
	}
	compareTable(t, table.String())
}

// permits reports whether the document's security lets a credential in.
func permits(op contracttest.Operation, api contracttest.API, column string) bool {
	if len(op.Security) == 0 {
		return op.ID != "eraseOwner" // no credential opens it; a wallet's signature does
	}
	scopes, keys := op.Security["apiKey"]
	switch column {
	case "core session":
		return api == contracttest.Core
	case "extension session":
		return api == contracttest.Extension
	case "key":
		return keys && !slices.Contains(scopes, "retract")
	case "key: read", "key: write", "key: retract":
		return keys && (len(scopes) == 0 || slices.Contains(scopes, strings.TrimPrefix(column, "key: ")))
	}
	return false
}

// cell formats a status for the table. A success means that the credential is let in. So
// does 503: staking is dormant in a stack without a chain, and only callers who are let
// in get that answer.
func cell(status int) string {
	if status < 300 || status == 503 {
		return "yes"
	}
	return strconv.Itoa(status)
}

func compareTable(t *testing.T, table string) {
	t.Helper()
	document, err := os.ReadFile(filepath.FromSlash(accessTable))
	noErr(t, err)
	const begin, end = "<!-- the table, by TestWhoMayDoWhat -->\n\n", "<!-- end of the table -->"
	before, rest, _ := strings.Cut(string(document), begin)
	got, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no place for the table", accessTable)
	}
	if got == table {
		return
	}
	if os.Getenv("GOLDEN") != "write" {
		for line := range strings.Lines(table) {
			if !strings.Contains(got, line) {
				t.Errorf("%s lacks %s", accessTable, line)
			}
		}
		t.Errorf("%s differs; GOLDEN=write accepts the difference", accessTable)
		return
	}
	noErr(t, os.WriteFile(filepath.FromSlash(accessTable), []byte(before+begin+table+end+after), 0o644))
}
