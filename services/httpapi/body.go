package httpapi

import (
	"bytes"
	"errors"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gofiber/fiber/v2"

	"github.com/memory-ledger/ledger/events"
	"github.com/memory-ledger/ledger/events/verify/canonical"
	"github.com/memory-ledger/ledger/services/access"
	"github.com/memory-ledger/ledger/services/signin"
)

// MaxBody is the largest request body in bytes.
const MaxBody = 1 << 20

// Decode reads a JSON object into v. Unknown members, duplicate names, invalid UTF-8, lone
// surrogates and trailing data are refused. A member that is ignored would be lost: the log
// can't be changed later.
func Decode(c *fiber.Ctx, v any) error { return decode(c, v, Body, known) }

// DecodeSignIn is Decode for the routes of sign-in and of apps, which any client may call. It
// ignores unknown members, because wallets' and apps' libraries send more than the routes need.
func DecodeSignIn(c *fiber.Ctx, v any) error { return decode(c, v, publicBody, strict) }

func decode(c *fiber.Ctx, v any, read func(*fiber.Ctx) ([]byte, error), options json.Options) error {
	body, err := read(c)
	if err != nil {
		return err
	}
	if err := contentType(c, body); err != nil {
		return err
	}
	if jsontext.Value(body).Kind() != '{' { // null would decode into any struct
		return BadRequest("body must be a JSON object")
	}
	if err := json.Unmarshal(body, v, options); err != nil {
		return BadRequest(reason(err))
	}
	return nil
}

var errNull = errors.New("null is not a value here")

// strict refuses null where a member is a string, an integer or a filter: null is not the
// same as an absent member. It reads integers in any JSON spelling.
var strict = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(notNull[string]), json.UnmarshalFromFunc(integer),
	json.UnmarshalFromFunc(notNull[*string]), json.UnmarshalFromFunc(notNull[*int]), json.UnmarshalFromFunc(notNull[*bool]),
	json.UnmarshalFromFunc(notNull[*[]string]), json.UnmarshalFromFunc(notNull[filterBody]), json.UnmarshalFromFunc(notNull[*viaBody]),
))

// known is strict, and refuses unknown members of all objects that decode into a struct.
var known = json.JoinOptions(strict, json.RejectUnknownMembers(true))

func notNull[T any](decoder *jsontext.Decoder, _ *T) error {
	if decoder.PeekKind() == 'n' {
		return errNull
	}
	return errors.ErrUnsupported
}

// DecodeOptional is Decode for bodies without a required member. An empty body means an
// empty object, and its Content-Type does not matter: many clients send the header with
// every request.
func DecodeOptional(c *fiber.Ctx, v any) error {
	body, err := Body(c)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return contentEncoding(c)
	}
	return Decode(c, v)
}

// NoMembers refuses a body with members, on a route that knows none. A body that is not JSON
// has none.
func NoMembers(c *fiber.Ctx) error {
	err := DecodeOptional(c, new(struct{}))
	if status, _ := Answer(err); status == http.StatusUnsupportedMediaType {
		return nil
	}
	return err
}

func IsForm(c *fiber.Ctx) bool {
	kind, _, _ := mime.ParseMediaType(string(c.Request().Header.ContentType()))
	return kind == fiber.MIMEApplicationForm
}

// Form reads the body as a form of texts, with the line ends that a JSON body would have.
// It refuses unknown members, as Decode does, a repeated name and invalid UTF-8.
func Form(c *fiber.Ctx, members ...string) (map[string]string, error) {
	form, err := form(c, Body)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		if !slices.Contains(members, name) {
			return nil, BadRequest(unknown(name, members))
		}
	}
	return form, err
}

// AppForm is Form for the routes of apps, which any client may call, with any members.
func AppForm(c *fiber.Ctx) (map[string]string, error) { return form(c, publicBody) }

func form(c *fiber.Ctx, read func(*fiber.Ctx) ([]byte, error)) (map[string]string, error) {
	body, err := read(c)
	if err != nil {
		return nil, err
	}
	if err := contentEncoding(c); err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, BadRequest("body is not a form")
	}
	form := map[string]string{}
	for name, texts := range values {
		if len(texts) > 1 || !utf8.ValidString(texts[0]) {
			return nil, BadRequest("a form has each member once, in UTF-8")
		}
		form[name] = strings.ReplaceAll(texts[0], "\r\n", "\n")
	}
	return form, nil
}

func contentEncoding(c *fiber.Ctx) error {
	for _, encoding := range c.Request().Header.PeekAll(fiber.HeaderContentEncoding) {
		if len(encoding) > 0 && string(encoding) != "identity" {
			return Refuse(http.StatusUnsupportedMediaType, "content encodings are not supported")
		}
	}
	return nil
}

func contentType(c *fiber.Ctx, body []byte) error {
	if err := contentEncoding(c); err != nil {
		return err
	}
	header := string(c.Request().Header.ContentType())
	if len(body) == 0 && header == "" {
		return BadRequest("a JSON body is required")
	}
	if header == fiber.MIMEApplicationJSON {
		return nil
	}
	kind, params, err := mime.ParseMediaType(header)
	if err != nil || kind != fiber.MIMEApplicationJSON {
		return Refuse(http.StatusUnsupportedMediaType, "content type must be application/json")
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return Refuse(http.StatusUnsupportedMediaType, "charset must be utf-8")
	}
	return nil
}

// reason says what is wrong with a body and where. It never repeats a value.
func reason(err error) string {
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		if len(syntactic.JSONPointer) < 100 {
			return "body has a duplicate name in one object: " + strconv.QuoteToASCII(string(syntactic.JSONPointer))
		}
		return "body has a duplicate name in one object"
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return unknownMember(semantic)
		}
		if len(semantic.JSONPointer) < 100 {
			return "member " + strconv.QuoteToASCII(string(semantic.JSONPointer)) + " has the wrong type"
		}
	}
	return "body is not valid JSON"
}

// unknownMember names an unknown member and the members that its object may have.
func unknownMember(found *json.SemanticError) string {
	// An object with its own UnmarshalJSONFrom wraps the error that says which member.
	for found.Err != json.ErrUnknownName {
		var inner *json.SemanticError
		if !errors.As(found.Err, &inner) {
			break
		}
		found = inner
	}
	var members []string
	for _, field := range reflect.VisibleFields(found.GoType) {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag != "" {
			members = append(members, tag)
		}
	}
	return unknown(string(found.JSONPointer), members)
}

func unknown(name string, members []string) string {
	if name = strconv.QuoteToASCII(name); len(name) > 200 {
		name = "with a long name"
	}
	if len(members) == 0 {
		return "unknown member " + name + "; there are none here"
	}
	return "unknown member " + name + `; the members here are "` + strings.Join(members, `", "`) + `"`
}

// Metadata returns the canonical form of a body's metadata: the empty object if the body
// has none.
func Metadata(raw jsontext.Value) (canonical.Object, error) {
	if raw == nil {
		return canonical.Empty, nil
	}
	return canonical.Admit(raw)
}

// IdempotencyKey returns the SHA-256 of the header, or nil without the header.
func IdempotencyKey(c *fiber.Ctx) (*events.Hash, error) {
	values := c.Request().Header.PeekAll("Idempotency-Key")
	if len(values) == 0 {
		return nil, nil
	}
	key := values[0]
	invisible := func(r rune) bool { return r < 0x21 || r > 0x7e }
	if len(values) > 1 || len(key) < 1 || len(key) > 255 || bytes.ContainsFunc(key, invisible) {
		return nil, BadRequest("Idempotency-Key must be 1 to 255 visible ASCII characters")
	}
	return new(signin.HashToken(string(key))), nil
}

// Writing is the handler of a request that ends in a command. It authenticates the caller
// from the remembered credential, and do carries the credential into the command. If do
// refuses the request with a status below 500, the credential is checked before the
// refusal is sent. So a dead credential gets the same 401 with a good body as with a bad
// one.
func Writing(authenticator *access.Authenticator, do func(*fiber.Ctx, access.Caller) error) fiber.Handler {
	return func(c *fiber.Ctx) error {
		caller, err := authenticator.Write(Context(c), Authorization(c))
		if err != nil {
			return err
		}
		refusal := do(c, caller)
		if refusal == nil {
			return nil
		}
		if status, _ := Answer(refusal); status >= http.StatusInternalServerError {
			return refusal // the client must learn that the write may have been stored
		}
		if _, err := authenticator.Read(Context(c), Authorization(c)); err != nil {
			return err
		}
		return refusal
	}
}

var errNotInteger = errors.New("not an integer")

// integer reads an integer in any spelling: 15, 15.0 and 1.5e1 are the same number, and
// some clients have only floating-point numbers. As everywhere in I-JSON, numbers are
// doubles.
func integer(decoder *jsontext.Decoder, into *int) error {
	switch decoder.PeekKind() {
	case 'n':
		return errNull
	case '0':
	default:
		return errors.ErrUnsupported
	}
	number, err := decoder.ReadValue()
	if err != nil {
		return err
	}
	double, err := strconv.ParseFloat(string(number), 64)
	*into = int(double)
	if err != nil || float64(*into) != double {
		return errNotInteger
	}
	return nil
}
