package memoryledger

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/memory-ledger/ledger/events/verify"
)

// TestFileHeadsLosesNoUpdate: many writers of one file, as several processes are, each raise
// the size, and none undoes what another did.
func TestFileHeadsLosesNoUpdate(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/heads.json"
	const writers, raises = 8, 10
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			store := FileHeads(path)
			for done := 0; done < raises; {
				known, err := store.Load(t.Context(), "a")
				next := SeenHead{Size: 1}
				if known != nil {
					next.Size = known.Size + 1
				}
				stored, failed := store.Replace(t.Context(), "a", known, next)
				if err := errors.Join(err, failed); err != nil {
					t.Error(err)
					return
				}
				if stored {
					done++
				}
			}
		})
	}
	all.Wait()
	if head, err := FileHeads(path).Load(t.Context(), "a"); err != nil || head.Size != writers*raises {
		t.Errorf("%+v, %v", head, err)
	}
}

// showing is a service that shows logs of leaves, one for each request of the head, and
// then the last one again and again.
type showing struct {
	logs [][]Hash
	wait func(request int) // before the answer to a request of the head
	n    int
}

func rootOf(leaves []Hash) Hash {
	tree := verify.NewTree()
	tree.Append(leaves...)
	return tree.Root()
}

func (s *showing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/log" {
		s.n++
	}
	leaves := s.logs[min(s.n, len(s.logs))-1]
	var body any
	switch query := r.URL.Query(); {
	case r.URL.Path == "/log":
		if s.wait != nil {
			s.wait(s.n)
		}
		body = LogHead{Owner: strings.Repeat("1", 32), TreeSize: uint64(len(leaves)), Root: rootOf(leaves)}
	case query.Get("from") == "1" && query.Get("to") == "3":
		body = ConsistencyProof{From: 1, To: 3, Proof: []Hash{leaves[1], leaves[2]}}
	default:
		return nil, fmt.Errorf("no answer to %s", r.URL)
	}
	text, err := json.Marshal(body)
	return answer(http.StatusOK, string(text)), err
}

// TestASlowProcessDoesNotLowerTheHead: two processes share a file of heads. The slow one
// gets the head of one leaf, and meanwhile the other one stores the head of three. A fork
// after the first leaf must then still be noticed.
func TestASlowProcessDoesNotLowerTheHead(t *testing.T) {
	t.Parallel()
	a, b, c, x := Hash{1}, Hash{2}, Hash{3}, Hash{4}
	store := FileHeads(t.TempDir() + "/heads.json")
	client := func(service *showing) *Client {
		return New("http://service", WithOwner(strings.Repeat("1", 32)), WithHeads(store), WithRetries(0, 0), WithHTTPClient(&http.Client{Transport: service}))
	}
	quick := client(&showing{logs: [][]Hash{{a, b, c}}})
	slow := client(&showing{logs: [][]Hash{{a}, {a, b, c}}, wait: func(n int) {
		if n > 1 {
			return
		}
		if _, err := quick.Head(t.Context()); err != nil {
			t.Error(err)
		}
	}})
	if head, err := slow.Head(t.Context()); err != nil || head.TreeSize != 3 {
		t.Errorf("%+v, %v", head, err)
	}
	if kept, err := store.Load(t.Context(), slow.Owner()); err != nil || kept.Size != 3 {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if _, err := client(&showing{logs: [][]Hash{{a, x, c}}}).Head(t.Context()); !errors.Is(err, ErrForked) {
		t.Errorf("a fork: %v", err)
	}
}

// TestAcceptLog: after a lawful restore, which the error names, the owner can go on from the
// shorter log. From there a fork is a fork again.
func TestAcceptLog(t *testing.T) {
	t.Parallel()
	a, b, c, x := Hash{1}, Hash{2}, Hash{3}, Hash{4}
	for _, owner := range []string{"", strings.Repeat("1", 32)} {
		service := &showing{logs: [][]Hash{{a, b, c}, {a}}}
		client := New("http://service", WithOwner(owner), WithHeads(FileHeads(t.TempDir()+"/heads.json")), WithRetries(0, 0), WithHTTPClient(&http.Client{Transport: service}))
		_, err := client.Head(t.Context())
		noErr(t, err)
		for range 2 {
			if _, err := client.Head(t.Context()); !errors.Is(err, ErrShrunk) || !strings.Contains(err.Error(), "restored") || !strings.Contains(err.Error(), "AcceptLog") {
				t.Errorf("after a restore: %v", err)
			}
		}
		if head, err := client.AcceptLog(t.Context()); err != nil || head.TreeSize != 1 {
			t.Errorf("%+v, %v", head, err)
		}
		service.logs = [][]Hash{{a, x, c}}
		if head, err := client.Head(t.Context()); err != nil || head.TreeSize != 3 {
			t.Errorf("it goes on: %+v, %v", head, err)
		}
		service.logs = [][]Hash{{a, b, c}}
		if _, err := client.Head(t.Context()); !errors.Is(err, ErrForked) || !strings.Contains(err.Error(), "restored") {
			t.Errorf("a fork: %v", err)
		}
	}
}
