package memoryledger

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mr-tron/base58"
)

// Client is a client of one owner's log. It is safe for use by several goroutines.
type Client struct {
	url, extensionURL             string
	publicURL, extensionPublicURL string // empty: the URL itself
	http                          *http.Client
	timeout                       time.Duration
	retries                       int
	backoff                       time.Duration
	verify                        bool
	rpcURL                        string
	issuer                        Issuer
	heads                         heads
	written                       written
	namespaces                    []string // nil: no limit is known

	mu                           sync.Mutex
	owner                        string // empty until it is known
	credential, extensionSession string
}

// Option configures a Client.
type Option func(*Client)

// New returns a client of the core API at a URL, the service's CORE_URL. Where it is another
// address of the service, name CORE_URL with WithPublicURL before you sign in.
func New(url string, options ...Option) *Client {
	c := &Client{
		url: strings.TrimRight(url, "/"), http: http.DefaultClient, timeout: 30 * time.Second, retries: 3, backoff: time.Second, verify: true,
		heads: newHeads(&memoryHeads{byOwner: map[string]SeenHead{}}), written: newWritten(),
	}
	for _, set := range options {
		set(c)
	}
	// Followed, a redirect could carry credentials and texts to another host.
	direct := *c.http
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c.http = &direct
	return c
}

// WithExtensionURL names the extension API, which grants need.
func WithExtensionURL(url string) Option {
	return func(c *Client) { c.extensionURL = strings.TrimRight(url, "/") }
}

// WithPublicURL names the core API's public base URL, where New got an inner address. The
// text that a wallet signs must name the public URL.
func WithPublicURL(url string) Option {
	return func(c *Client) { c.publicURL = strings.TrimRight(url, "/") }
}

// WithExtensionPublicURL is like WithPublicURL, for the extension API.
func WithExtensionPublicURL(url string) Option {
	return func(c *Client) { c.extensionPublicURL = strings.TrimRight(url, "/") }
}

// WithAPIKey uses an API key of the core API.
func WithAPIKey(key string) Option { return func(c *Client) { c.credential = key } }

// WithNamespaces names the namespaces that the API key is limited to. See List. Without it, a
// memory that an API key writes without a namespace may be stored in any.
func WithNamespaces(names ...string) Option { return func(c *Client) { c.namespaces = names } }

// WithSession uses a session of the core API. SignIn makes one.
func WithSession(token string) Option { return func(c *Client) { c.credential = token } }

// WithExtensionSession uses a session of the extension API. SignIn makes one.
func WithExtensionSession(token string) Option {
	return func(c *Client) { c.extensionSession = token }
}

// WithOwner sets the owner of the credential, by the public key in base58. Without it,
// the first head that the service returns decides.
func WithOwner(publicKey string) Option { return func(c *Client) { c.owner = publicKey } }

// WithRPC names a Solana node. Receipts and exports are then checked against the chain.
func WithRPC(url string) Option { return func(c *Client) { c.rpcURL = url } }

// WithIssuer sets the issuer that must have anchored receipts and exports. Ask the
// operator, by another way than the service.
func WithIssuer(by Issuer) Option { return func(c *Client) { c.issuer = by } }

// WithHeads stores the heads that this client saw, for example in FileHeads. Without it
// the heads are lost when the process ends, and a fork is detected only against a stored
// head.
func WithHeads(store HeadStore) Option { return func(c *Client) { c.heads = newHeads(store) } }

// WithHTTPClient sets the HTTP client, also for the Solana node. Redirects are not followed.
func WithHTTPClient(client *http.Client) Option { return func(c *Client) { c.http = client } }

// WithTimeout bounds each attempt of a call; 30 seconds by default. In a stream it bounds
// the wait for the first byte. The context bounds all attempts together.
func WithTimeout(d time.Duration) Option { return func(c *Client) { c.timeout = d } }

// WithRetries sets how many attempts follow the first one, and the wait before the second
// attempt; by default 3 attempts and one second. The wait doubles for each attempt. Half
// of it is random. A Retry-After header of the service takes precedence; one
// of more than a minute ends the retries.
func WithRetries(attempts int, first time.Duration) Option {
	return func(c *Client) { c.retries, c.backoff = attempts, first }
}

// WithoutVerification turns all checks off: the client trusts the service.
func WithoutVerification() Option { return func(c *Client) { c.verify = false } }

// Wallet signs in: it has a public key in base58, and signs messages with its key.
type Wallet interface {
	PublicKey() string
	Sign(ctx context.Context, message []byte) (signature []byte, err error)
}

// KeyWallet is the wallet of a key in memory. The key is the 64 bytes that solana-keygen
// writes to a file.
type KeyWallet ed25519.PrivateKey

// PublicKey implements Wallet.
func (w KeyWallet) PublicKey() string {
	return base58.Encode(w[ed25519.PrivateKeySize-ed25519.PublicKeySize:])
}

// Sign implements Wallet.
func (w KeyWallet) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(ed25519.PrivateKey(w), message), nil
}

// Session is a session of the core API.
type Session struct {
	Token     string    `json:"token"`
	ExpiresAt time.Time `json:"expiresAt"`
	PublicKey string    `json:"publicKey"`
}

// SignIn signs in to the core API, and to the extension API if its URL is set. The client
// then uses these sessions. The wallet signs only the text that the service at these URLs
// has for this: any other text is ErrChallenge.
func (c *Client) SignIn(ctx context.Context, wallet Wallet) (*Session, error) {
	if owner := c.Owner(); owner != "" && owner != wallet.PublicKey() {
		return nil, errors.New("memoryledger: this client is of another owner")
	}
	session, err := c.signInTo(ctx, c.url, cmp.Or(c.publicURL, c.url), wallet)
	if err != nil {
		return nil, err
	}
	extension := &Session{}
	if c.extensionURL != "" {
		if extension, err = c.signInTo(ctx, c.extensionURL, cmp.Or(c.extensionPublicURL, c.extensionURL), wallet); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner, c.credential, c.extensionSession = wallet.PublicKey(), session.Token, extension.Token
	return session, nil
}

func (c *Client) signInTo(ctx context.Context, url, site string, wallet Wallet) (*Session, error) {
	answer, err := c.sign(ctx, url, site, toSignIn, wallet)
	if err != nil {
		return nil, err
	}
	session := new(Session)
	_, err = c.call(ctx, request{method: http.MethodPost, url: url + "/auth/verify", body: answer, signed: true}, session)
	return session, err
}

// Erase destroys the owner's data key for good: the owner's texts can no longer be read,
// and all sessions, keys and grants end. Leaves and proofs stay. It returns how many
// leaves the log has. The wallet signs a challenge that states the erasure.
func (c *Client) Erase(ctx context.Context, wallet Wallet) (leaves uint64, err error) {
	answer, err := c.sign(ctx, c.url, cmp.Or(c.publicURL, c.url), toErase, wallet)
	if err != nil {
		return 0, err
	}
	var done struct {
		Erased uint64 `json:"erased"`
	}
	_, err = c.call(ctx, request{method: http.MethodPost, url: c.url + "/erasure", body: answer, signed: true}, &done)
	return done.Erased, err
}

// sign gets a new challenge, checks it, and has a wallet sign it. site is the API's public
// base URL.
func (c *Client) sign(ctx context.Context, url, site string, why purpose, wallet Wallet) (map[string]string, error) {
	key := wallet.PublicKey()
	var challenge struct {
		Message string `json:"message"`
	}
	asked := request{method: http.MethodPost, url: url + "/auth/challenge", body: map[string]string{"publicKey": key, "purpose": string(why)}}
	if _, err := c.call(ctx, asked, &challenge); err != nil {
		return nil, err
	}
	if err := checkChallenge(challenge.Message, site, why, key, time.Now()); err != nil {
		return nil, err
	}
	signature, err := wallet.Sign(ctx, []byte(challenge.Message))
	if err != nil {
		return nil, err
	}
	return map[string]string{"publicKey": key, "message": challenge.Message, "signature": base58.Encode(signature)}, nil
}

// Owner is the public key of the log's owner, in base58. It is empty until it is known.
func (c *Client) Owner() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owner
}

func (c *Client) setOwner(owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owner = owner
}

// core makes a request to the core API.
func (c *Client) core(method, path string) request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return request{method: method, url: c.url + path, credential: c.credential}
}

// extension makes a request to the extension API.
func (c *Client) extension(method, path string, body any) (request, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.extensionURL == "" {
		return request{}, errors.New("memoryledger: grants need WithExtensionURL")
	}
	return request{method: method, url: c.extensionURL + path, credential: c.extensionSession, body: body}, nil
}
