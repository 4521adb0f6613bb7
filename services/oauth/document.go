package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	lru "github.com/hashicorp/golang-lru/v2"
)

// maxDocument bounds a metadata document, in bytes.
const maxDocument = 32 << 10

// documentURL is the form of a client id that is the address of a metadata document: it has
// a path, and no user, dot segments or fragment.
var documentURL = regexp.MustCompile(`^https://[A-Za-z0-9.-]+(:[0-9]{1,5})?/[A-Za-z0-9._~!$&()*+,;=:@/%?-]*$`)

// documents fetches the metadata documents of apps (client id metadata documents). Their
// addresses come from anyone, so a fetch must reach no server that only this machine can
// reach: see public.
type documents struct {
	client *http.Client
	kept   *lru.Cache[string, keptDocument]
	slots  chan struct{} // one element for each fetch of this process, which anyone can cause
	now    func() time.Time
}

type keptDocument struct {
	client metadata
	until  time.Time
}

func newDocuments(now func() time.Time) *documents {
	// A document that is kept spares the app's server a second fetch for each consent.
	kept, err := lru.New[string, keptDocument](256)
	if err != nil {
		panic(err) // only for a size that is not positive
	}
	dialer := &net.Dialer{Control: onlyPublic}
	return &documents{kept: kept, slots: make(chan struct{}, 64), now: now, client: &http.Client{
		Timeout: 5 * time.Second, // to the last byte
		// Another address would not be the one that the user is shown.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			// A proxy would connect for us, to any address. Each fetch makes a connection of
			// its own, so that its address is checked.
			Proxy: nil, DialContext: dialer.DialContext, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		},
	}}
}

var errNotPublic = errors.New("not a public address")

// onlyPublic refuses to connect to an address that is not public. The system calls it after
// the name was resolved, with the address that it then connects to: a name that resolves
// to another address the next time gains nothing.
func onlyPublic(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !public(to.Addr()) {
		return errNotPublic
	}
	return nil
}

// special are the blocks of global unicast addresses that are not on the public internet, or
// that embed another address (RFC 6890).
var special = func() (blocks []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
	} {
		blocks = append(blocks, netip.MustParsePrefix(text))
	}
	return blocks
}()

var globalIPv6 = netip.MustParsePrefix("2000::/3")

// public reports whether an address is on the public internet.
func public(addr netip.Addr) bool {
	addr = addr.Unmap() // ::ffff:10.0.0.1 is 10.0.0.1
	if !addr.IsGlobalUnicast() || addr.IsPrivate() || addr.Zone() != "" || addr.Is6() && !globalIPv6.Contains(addr) {
		return false
	}
	for _, block := range special {
		if block.Contains(addr) {
			return false
		}
	}
	return true
}

func (d *documents) get(ctx context.Context, id string) (metadata, error) {
	if kept, ok := d.kept.Get(id); ok && d.now().Before(kept.until) {
		return kept.client, nil
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return metadata{}, ErrBusy
	}
	client, err := d.fetch(ctx, id)
	if err == nil {
		d.kept.Add(id, keptDocument{client, d.now().Add(5 * time.Minute)})
	}
	return client, err
}

func (d *documents) fetch(ctx context.Context, id string) (metadata, error) {
	refused := func(why error) (metadata, error) {
		return metadata{}, &Error{Code: "invalid_client", Description: "the app's metadata document can't be used: " + why.Error()}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, id, http.NoBody)
	if err != nil {
		return refused(errors.New("its address is malformed"))
	}
	request.Header.Set("Accept", "application/json")
	answer, err := d.client.Do(request)
	if err != nil {
		return refused(errors.New("no answer from a public address within 5 seconds")) // more would describe our network
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refused(fmt.Errorf("status %d", answer.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil || len(text) > maxDocument {
		return refused(errors.New("it did not arrive whole, or is longer than 32 kB"))
	}
	var document struct {
		ClientID string `json:"client_id"`
		metadata
	}
	if err := json.Unmarshal(text, &document); err != nil {
		return refused(errors.New("it is not a JSON object of the right types"))
	}
	if document.ClientID != id {
		return refused(errors.New("its client_id is not its address"))
	}
	return document.metadata.checked()
}

func hostOf(id string) string {
	u, err := url.Parse(id)
	if err != nil {
		return ""
	}
	return u.Host
}
