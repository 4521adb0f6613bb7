package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/memory-ledger/ledger/infra/testkit"
	memoryledger "github.com/memory-ledger/ledger/services/clients/go"
	"github.com/memory-ledger/ledger/services/test/stacktest"
)

// liar is a proxy in front of an API. It changes answers.
type liar struct {
	*httptest.Server
	mu  sync.Mutex
	lie lie
}

// lie changes the successful answers to requests that it matches.
type lie struct {
	method string // empty: GET
	path   *regexp.Regexp
	change func(body []byte) []byte
	cut    bool // cut the connection after the changed body
}

func startLiar(t *testing.T, target string) *liar {
	t.Helper()
	to, err := url.Parse(target)
	noErr(t, err)
	l := &liar{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Header.Del("Accept-Encoding") // a compressed answer can't be changed
		},
		ModifyResponse: l.modify,
		ErrorLog:       log.New(io.Discard, "", 0), // would report the connections that it cuts
	}
	l.Server = httptest.NewServer(stacktest.ReadFirst(proxy))
	t.Cleanup(l.Close)
	return l
}

func (l *liar) modify(r *http.Response) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	method := l.lie.method
	if method == "" {
		method = http.MethodGet
	}
	if l.lie.path == nil || r.StatusCode >= 300 || r.Request.Method != method || !l.lie.path.MatchString(r.Request.URL.Path) {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	body = l.lie.change(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", fmt.Sprint(len(body)))
	if l.lie.cut {
		r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
		r.Header.Set("Content-Length", fmt.Sprint(len(body)+1))
	}
	return nil
}

func (l *liar) tell(lies lie) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lie = lies
}

// edit changes an answer that is an object.
func edit(change func(members map[string]any)) func([]byte) []byte {
	return func(body []byte) []byte {
		var members map[string]any
		if err := json.Unmarshal(body, &members); err != nil {
			panic(err)
		}
		change(members)
		return must(json.Marshal(members))
	}
}

// editList changes an answer that is an array.
func editList(change func(items []any) []any) func([]byte) []byte {
	return func(body []byte) []byte {
		var items []any
		if err := json.Unmarshal(body, &items); err != nil {
			panic(err)
		}
		return must(json.Marshal(change(items)))
	}
}

// editLine changes a line of an export.
func editLine(n int, change func(line string) string) func([]byte) []byte {
	return func(body []byte) []byte {
		lines := strings.SplitAfter(string(body), "\n")
		lines[n] = change(lines[n])
		return []byte(strings.Join(lines, ""))
	}
}

func always(value any) func([]byte) []byte {
	return func([]byte) []byte { return must(json.Marshal(value)) }
}

// flip changes one bit of a hash.
func flip(hash any) string {
	text := hash.(string)
	return string(map[byte]byte{'0': '1', '1': '0', '2': '3', '3': '2', '4': '5', '5': '4', '6': '7', '7': '6',
		'8': '9', '9': '8', 'a': 'b', 'b': 'a', 'c': 'd', 'd': 'c', 'e': 'f', 'f': 'e'}[text[0]]) + text[1:]
}

func flipMember(name string) func([]byte) []byte {
	return edit(func(m map[string]any) { m[name] = flip(m[name]) })
}

// flipFirst flips a bit of a member's hash in a line.
func flipFirst(name string) func(string) string {
	return func(line string) string {
		before, after, found := strings.Cut(line, `"`+name+`":"`)
		if !found {
			panic(line)
		}
		return before + `"` + name + `":"` + flip(after)
	}
}

// TestGoClientCatchesLies: each lie of a service has its own error.
func TestGoClientCatchesLies(t *testing.T) {
	s := shared(t)
	service := startLiar(t, s.Core[0].URL)
	ctx := t.Context()
	wallet := newKeyWallet(t)
	c := memoryledger.New(service.URL, memoryledger.WithPublicURL(s.Core[0].URL))
	must(c.SignIn(ctx, wallet))
	var written []*memoryledger.Written
	for n := range 5 {
		written = append(written, must(c.Write(ctx, fmt.Sprint("memory ", n), memoryledger.Metadata{"n": n})))
	}
	must(c.Head(ctx))
	second, third := written[1].ID, written[2].ID

	other := newGoClient(t, s)
	var theirs string
	for n := range 6 {
		theirs = must(other.Write(ctx, fmt.Sprint("theirs ", n), nil)).ID
	}
	var theirExport, oldExport bytes.Buffer
	theirHead, theirReceipt := must(other.Head(ctx)), must(other.Receipt(ctx, theirs))
	must(all(other.Export(ctx, memoryledger.ExportOptions{CopyTo: &theirExport})))
	oldReceipt, oldProof := must(c.Receipt(ctx, second)), must(c.Proof(ctx, third))
	must(all(c.Export(ctx, memoryledger.ExportOptions{CopyTo: &oldExport})))

	receipt := func(ctx context.Context) error { _, err := c.Receipt(ctx, third); return err }
	get := func(ctx context.Context) error { _, err := c.Get(ctx, third); return err }
	proof := func(ctx context.Context) error { _, err := c.Proof(ctx, third); return err }
	head := func(ctx context.Context) error { _, err := c.Head(ctx); return err }
	list := func(ctx context.Context) error { _, err := all(c.List(ctx, memoryledger.ListOptions{})); return err }
	newest := func(ctx context.Context) error {
		_, err := all(c.List(ctx, memoryledger.ListOptions{Order: memoryledger.Newest}))
		return err
	}
	export := func(ctx context.Context) error {
		_, err := all(c.Export(ctx, memoryledger.ExportOptions{}))
		return err
	}
	events := func(ctx context.Context) error { _, err := all(c.Events(ctx, "")); return err }
	signIn := func(ctx context.Context) error {
		_, err := memoryledger.New(service.URL, memoryledger.WithPublicURL(s.Core[0].URL)).SignIn(ctx, wallet)
		return err
	}
	batch := func(ctx context.Context) error {
		_, err := c.WriteBatch(ctx, []memoryledger.NewMemory{{Content: "a"}, {Content: "b"}})
		return err
	}

	paths := map[string]*regexp.Regexp{}
	for name, path := range map[string]string{
		"receipt": `/receipt$`, "write": `^/memories$`, "proof": `/proof$`, "memory": `^/memories/[^/]+$`, "list": `^/memories$`, "log": `^/log$`,
		"export": `^/export$`, "events": `^/events$`, "challenge": `/challenge$`, "batch": `/batch$`, "consistency": `/consistency$`,
	} {
		paths[name] = regexp.MustCompile(path)
	}
	without := func(n int) func([]byte) []byte {
		return editList(func(items []any) []any { return append(items[:n:n], items[n+1:]...) })
	}
	caught := func(name string, kind error, path string, change func([]byte) []byte, ask func(context.Context) error) {
		t.Helper()
		l := lie{path: paths[path], change: change}
		if path == "challenge" || path == "batch" || path == "write" {
			l.method = http.MethodPost
		}
		service.tell(l)
		err := ask(ctx)
		service.tell(lie{})
		var v *memoryledger.VerificationError
		if !errors.As(err, &v) || !errors.Is(err, kind) || v.Liar != memoryledger.LiarService || !strings.Contains(err.Error(), "the service lies") {
			t.Errorf("%s: %v, want %v of the service", name, err, kind)
		}
	}
	caught("a leaf of a receipt", memoryledger.ErrWrongLeaf, "receipt", flipMember("leafHash"), receipt)
	caught("a leaf of a memory", memoryledger.ErrWrongLeaf, "memory", flipMember("leafHash"), get)
	caught("a leaf of a list", memoryledger.ErrWrongRoot, "list", editList(func(items []any) []any {
		m := items[2].(map[string]any)
		m["leafHash"] = flip(m["leafHash"])
		return items
	}), list)
	caught("a leaf of a proof", memoryledger.ErrBadProof, "proof", edit(func(m map[string]any) {
		p := m["proof"].(map[string]any)
		p["leaf"] = flip(p["leaf"])
	}), proof)
	caught("a leaf of an export", memoryledger.ErrWrongLeaf, "export", editLine(3, flipFirst("leafHash")), export)
	caught("a text of a receipt", memoryledger.ErrWrongText, "receipt", edit(func(m map[string]any) { m["entry"].(map[string]any)["content"] = "another" }), receipt)
	caught("a text of a memory", memoryledger.ErrWrongText, "memory", edit(func(m map[string]any) { m["content"] = "another" }), get)
	caught("metadata of a memory", memoryledger.ErrWrongText, "memory", edit(func(m map[string]any) { m["metadata"] = map[string]any{} }), get)
	caught("a text of an export", memoryledger.ErrWrongLeaf, "export", editLine(3, func(line string) string { return strings.Replace(line, "memory", "nemory", 1) }), export)
	caught("a sibling of a receipt", memoryledger.ErrBadProof, "receipt", edit(func(m map[string]any) {
		siblings := m["siblings"].([]any)
		siblings[1] = flip(siblings[1])
	}), receipt)
	caught("a sibling of a proof", memoryledger.ErrBadProof, "proof", edit(func(m map[string]any) {
		siblings := m["proof"].(map[string]any)["siblings"].([]any)
		siblings[0] = flip(siblings[0])
	}), proof)
	caught("another memory's id", memoryledger.ErrWrongMemory, "memory", edit(func(m map[string]any) { m["id"] = second }), get)
	caught("another place of a memory", memoryledger.ErrWrongMemory, "memory", edit(func(m map[string]any) { m["leafIndex"] = 1 }), get)
	caught("another leaf than is stored", memoryledger.ErrWrongLeaf, "write", flipMember("leafHash"), func(ctx context.Context) error {
		_, err := c.Receipt(ctx, must(c.Write(ctx, "said to be another leaf", nil)).ID)
		return err
	})
	caught("a root of a proof", memoryledger.ErrWrongRoot, "proof", flipMember("batchRoot"), proof)
	caught("the root of an export", memoryledger.ErrWrongRoot, "export", editLine(0, flipFirst("root")), export)
	caught("the root of the log", memoryledger.ErrForked, "log", flipMember("root"), head)
	for n := range 6 { // including the one whose answer named another leaf
		caught(fmt.Sprintf("memory %d is hidden", n), memoryledger.ErrHidden, "list", without(n), list)
		caught(fmt.Sprintf("memory %d is hidden, from the newest", n), memoryledger.ErrHidden, "list", without(n), newest)
	}
	caught("a memory is hidden from an export", memoryledger.ErrHidden, "export", editLine(2, func(string) string { return "" }), export)
	caught("a memory is in a list twice", memoryledger.ErrHidden, "list", editList(func(items []any) []any { return append(items[:1:1], items...) }), list)
	caught("an older head", memoryledger.ErrShrunk, "log", edit(func(m map[string]any) { m["treeSize"] = 3 }), head)
	caught("another owner's head", memoryledger.ErrWrongOwner, "log", always(theirHead), head)
	caught("another owner's receipt", memoryledger.ErrWrongOwner, "receipt", always(theirReceipt), receipt)
	caught("another owner's export", memoryledger.ErrWrongOwner, "export", func([]byte) []byte { return theirExport.Bytes() }, export)
	caught("another owner's events", memoryledger.ErrWrongOwner, "events", func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(c.Owner()), []byte(other.Owner()))
	}, events)
	caught("a challenge that a relay passes on", memoryledger.ErrChallenge, "challenge", func(body []byte) []byte { return body },
		func(ctx context.Context) error {
			_, err := memoryledger.New(service.URL).SignIn(ctx, wallet)
			return err
		})
	caught("a challenge for another account", memoryledger.ErrChallenge, "challenge", func(body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(c.Owner()), []byte(other.Owner()))
	}, signIn)
	caught("a challenge to erase", memoryledger.ErrChallenge, "challenge", edit(func(m map[string]any) {
		m["message"] = strings.Replace(m["message"].(string), "Sign in to", "ERASE all my memories at", 1)
	}), signIn)
	caught("a challenge to sign in, to erase", memoryledger.ErrChallenge, "challenge", edit(func(m map[string]any) {
		m["message"] = strings.Replace(m["message"].(string), "ERASE", "Sign in to", 1)
	}), func(ctx context.Context) error { _, err := c.Erase(ctx, wallet); return err })
	caught("a batch in another order", memoryledger.ErrHidden, "batch", editList(func(items []any) []any { return []any{items[1], items[0]} }), batch)
	caught("a batch that lacks a memory", memoryledger.ErrHidden, "batch", editList(func(items []any) []any { return items[:1] }), batch)

	// Since the old receipt and export were made, the log has grown by two batches of two.
	caught("an old receipt", memoryledger.ErrStale, "receipt", always(oldReceipt), func(ctx context.Context) error { _, err := c.Receipt(ctx, second); return err })
	caught("an old export", memoryledger.ErrStale, "export", func([]byte) []byte { return oldExport.Bytes() }, export)
	caught("an old proof", memoryledger.ErrStale, "proof", always(oldProof), proof)
	// A consistent receipt, but of a log with another leaf beside this one.
	caught("a receipt of a forked log", memoryledger.ErrWrongRoot, "receipt", func(body []byte) []byte {
		var r memoryledger.Receipt
		if err := json.Unmarshal(body, &r); err != nil {
			panic(err)
		}
		r.Siblings[0][0] ^= 1
		root := r.LeafHash[:]
		for i, right := range r.Directions {
			if right {
				root = rfc6962.DefaultHasher.HashChildren(root, r.Siblings[i][:])
			} else {
				root = rfc6962.DefaultHasher.HashChildren(r.Siblings[i][:], root)
			}
		}
		r.BatchRoot = memoryledger.Hash(root)
		return must(json.Marshal(r))
	}, receipt)
	genuine := must(c.Receipt(ctx, second))
	caught("a receipt of another memory", memoryledger.ErrWrongMemory, "receipt", always(genuine), receipt)
	must(c.Write(ctx, "one more", nil))
	caught("a fork that grew", memoryledger.ErrForked, "log", edit(func(m map[string]any) { m["root"] = theirHead.Root.String() }), head)
	caught("a proof of other sizes", memoryledger.ErrMalformed, "consistency", edit(func(m map[string]any) { m["from"] = 1 }), head)

	// A truncated export and a cut connection are different errors.
	half := func(body []byte) []byte { return body[:len(body)/2] }
	caught("half an export", memoryledger.ErrIncomplete, "export", half, export)
	caught("an export without its last line", memoryledger.ErrIncomplete, "export", func(body []byte) []byte {
		return body[:bytes.LastIndexByte(body[:len(body)-1], '\n')+1]
	}, export)
	service.tell(lie{path: paths["export"], change: half, cut: true})
	var v *memoryledger.VerificationError
	if err := export(ctx); !errors.Is(err, memoryledger.ErrIncomplete) || !errors.Is(err, memoryledger.ErrConnection) || errors.As(err, &v) {
		t.Errorf("an export whose connection is cut: %v", err)
	}
	service.tell(lie{})
	for _, err := range []error{list(ctx), newest(ctx), export(ctx), receipt(ctx), get(ctx), proof(ctx), head(ctx), events(ctx)} {
		if err != nil {
			t.Errorf("an honest answer: %v", err)
		}
	}
}

// TestGoClientCatchesLiesAboutAnchors: leaves that were anchored once stay anchored.
func TestGoClientCatchesLiesAboutAnchors(t *testing.T) {
	t.Parallel()
	s, _ := anchoredStack(t, 100*time.Millisecond)
	service := startLiar(t, s.Core[0].URL)
	ctx := t.Context()
	c := memoryledger.New(service.URL, memoryledger.WithPublicURL(s.Core[0].URL))
	must(c.SignIn(ctx, newKeyWallet(t)))
	first := must(c.Write(ctx, "first", nil))
	id := first.ID
	anchored := func(size uint64) {
		t.Helper()
		testkit.Await(t, "it is anchored", func() bool { return must(c.Head(ctx)).AnchoredSize >= size })
	}
	anchored(1)
	oldHead, oldReceipt := must(c.Head(ctx)), must(c.Receipt(ctx, id))
	var oldExport bytes.Buffer
	must(all(c.Export(ctx, memoryledger.ExportOptions{CopyTo: &oldExport})))
	second, third := must(c.Write(ctx, "second", nil)), must(c.Write(ctx, "third", nil))
	anchored(3)
	fourth := must(c.Write(ctx, "fourth", nil))
	node := func(a, b memoryledger.Hash) memoryledger.Hash {
		return memoryledger.Hash(rfc6962.DefaultHasher.HashChildren(a[:], b[:]))
	}
	right := node(third.LeafHash, fourth.LeafHash)

	log, receipt, export := regexp.MustCompile(`^/log$`), regexp.MustCompile(`/receipt$`), regexp.MustCompile(`^/export$`)
	fresh := func(ctx context.Context) error {
		_, err := memoryledger.New(service.URL, memoryledger.WithAPIKey(must(c.CreateKey(ctx, memoryledger.NewKey{Label: "fresh"})).Secret)).Head(ctx)
		return err
	}
	head := func(ctx context.Context) error { _, err := c.Head(ctx); return err }
	ask := func(ctx context.Context) error { _, err := c.Receipt(ctx, id); return err }
	for name, l := range map[string]struct {
		kind   error
		path   *regexp.Regexp
		change func([]byte) []byte
		ask    func(context.Context) error
	}{
		"less is anchored": {memoryledger.ErrShrunk, log, edit(func(m map[string]any) {
			m["anchoredSize"], m["anchoredRoot"] = oldHead.AnchoredSize, oldHead.AnchoredRoot
		}), head},
		"nothing is anchored":                     {memoryledger.ErrShrunk, log, edit(func(m map[string]any) { m["anchoredSize"], m["anchoredRoot"] = 0, nil }), head},
		"another root is anchored":                {memoryledger.ErrForked, log, flipMember("anchoredRoot"), head},
		"another root is anchored, to a newcomer": {memoryledger.ErrForked, log, flipMember("anchoredRoot"), fresh},
		"no root is anchored":                     {memoryledger.ErrMalformed, log, edit(func(m map[string]any) { m["anchoredRoot"] = nil }), head},
		"more is anchored than there is":          {memoryledger.ErrMalformed, log, edit(func(m map[string]any) { m["anchoredSize"] = 9 }), head},
		"an old receipt":                          {memoryledger.ErrStale, receipt, always(oldReceipt), ask},
		"a receipt without its anchor": {memoryledger.ErrStale, receipt, edit(func(m map[string]any) {
			m["treeSize"], m["siblings"], m["directions"] = 4, []memoryledger.Hash{second.LeafHash, right}, []bool{true, true}
			m["batchRoot"], m["anchor"], m["consistency"] = node(node(first.LeafHash, second.LeafHash), right), nil, []string{}
		}), ask},
		// The committed log has the first leaf, and another second one.
		"a receipt that a fork anchors": {memoryledger.ErrChain, receipt, edit(func(m map[string]any) {
			anchor, other := m["anchor"].(map[string]any), memoryledger.Hash{1}
			anchor["committedSize"], anchor["committedRoot"] = 4, node(node(first.LeafHash, other), right)
			m["consistency"] = []memoryledger.Hash{other, right}
		}), ask},
		"an old export": {memoryledger.ErrStale, export, func([]byte) []byte { return oldExport.Bytes() }, func(ctx context.Context) error {
			_, err := all(c.Export(ctx, memoryledger.ExportOptions{}))
			return err
		}},
		"an export without its anchor": {memoryledger.ErrStale, export, editLine(0, func(line string) string {
			before, _, _ := strings.Cut(line, `"anchor":`)
			return before + "\"anchor\":null}\n"
		}), func(ctx context.Context) error {
			_, err := all(c.Export(ctx, memoryledger.ExportOptions{}))
			return err
		}},
	} {
		service.tell(lie{path: l.path, change: l.change})
		err := l.ask(ctx)
		service.tell(lie{})
		var v *memoryledger.VerificationError
		if !errors.As(err, &v) || !errors.Is(err, l.kind) || v.Liar != memoryledger.LiarService {
			t.Errorf("%s: %v, want %v of the service", name, err, l.kind)
		}
	}
	if err := errors.Join(head(ctx), fresh(ctx)); err != nil {
		t.Errorf("an honest answer: %v", err)
	}
}

// rewriter changes the text that the client sends, like a service that stores another
// text.
type rewriter struct{}

func (rewriter) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && r.URL.Path == "/memories" {
		r = r.Clone(r.Context())
		body := bytes.ReplaceAll(must(io.ReadAll(r.Body)), []byte("as written"), []byte("as stored"))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// TestGoClientCatchesAnotherText: the receipt of a text that was changed before it was
// stored reveals the change, although the receipt is good.
func TestGoClientCatchesAnotherText(t *testing.T) {
	s := shared(t)
	c := newGoClient(t, s, memoryledger.WithHTTPClient(&http.Client{Transport: rewriter{}}))
	id := must(c.Write(t.Context(), "as written", nil)).ID
	var v *memoryledger.VerificationError
	if _, err := c.Receipt(t.Context(), id); !errors.Is(err, memoryledger.ErrWrongText) || !errors.As(err, &v) || v.Liar != memoryledger.LiarService {
		t.Error(err)
	}
}

// TestGoClientHeadsOutliveIt: the next process detects a fork against the head that the
// previous one stored.
func TestGoClientHeadsOutliveIt(t *testing.T) {
	s := shared(t)
	service := startLiar(t, s.Core[0].URL)
	store := memoryledger.FileHeads(t.TempDir() + "/heads.json")
	ctx, wallet := t.Context(), newKeyWallet(t)
	next := func() *memoryledger.Client {
		c := memoryledger.New(service.URL, memoryledger.WithPublicURL(s.Core[0].URL), memoryledger.WithHeads(store))
		must(c.SignIn(ctx, wallet))
		return c
	}
	first := next()
	for n := range 3 {
		must(first.Write(ctx, fmt.Sprint(n), nil))
	}
	must(first.Head(ctx))
	must(first.Write(ctx, "one more", nil))
	must(next().Head(ctx))
	service.tell(lie{path: regexp.MustCompile(`^/log$`), change: flipMember("root")})
	if _, err := next().Head(ctx); !errors.Is(err, memoryledger.ErrForked) {
		t.Error(err)
	}
	service.tell(lie{path: regexp.MustCompile(`^/log$`), change: edit(func(m map[string]any) { m["treeSize"] = 2 })})
	if _, err := next().Head(ctx); !errors.Is(err, memoryledger.ErrShrunk) {
		t.Error(err)
	}
}
