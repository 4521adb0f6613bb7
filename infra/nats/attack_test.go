package natsconf_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	natsconf "github.com/memory-ledger/ledger/infra/nats"
)

// requests returns attacks, as subject and body. Each user must be refused all of them,
// except those that may lists for the user.
func requests() map[string]string {
	config := func(s string) string { return `{"stream_name":"LEDGER","config":` + s + `}` }
	sneak := `{"durable_name":"sneak","name":"sneak","ack_policy":"none","deliver_subject":"ledger.aa.owner.memory","filter_subject":"chain.>"}`
	all := map[string]string{
		"$JS.API.STREAM.PURGE.LEDGER":                             ``,
		"$JS.API.STREAM.DELETE.LEDGER":                            ``,
		"$JS.API.STREAM.MSG.DELETE.LEDGER":                        `{"seq":1}`,
		"$JS.API.STREAM.MSG.DELETE.KV_ledger_keys":                `{"seq":1}`,
		"$JS.API.STREAM.MSG.GET.KV_ledger_keys":                   `{"seq":1}`,
		"$JS.API.STREAM.UPDATE.LEDGER":                            `{"name":"LEDGER","subjects":["ledger.>"],"max_msgs":1,"storage":"file"}`,
		"$JS.API.STREAM.CREATE.COPY":                              `{"name":"COPY","storage":"file","mirror":{"name":"KV_ledger_keys"}}`,
		"$JS.API.STREAM.SNAPSHOT.LEDGER":                          `{"deliver_subject":"_INBOX_auditor.x"}`,
		"$JS.API.STREAM.RESTORE.LEDGER":                           `{"config":{"name":"LEDGER"}}`,
		"$JS.API.STREAM.LEADER.STEPDOWN.LEDGER":                   ``,
		"$JS.API.STREAM.PURGE.KV_ledger_keys":                     ``,
		"$JS.API.STREAM.DELETE.KV_ledger_keys":                    ``,
		"$JS.API.STREAM.NAMES":                                    ``,
		"$JS.API.STREAM.LIST":                                     ``,
		"$JS.API.INFO":                                            ``,
		"$JS.API.CONSUMER.CREATE.LEDGER":                          config(sneak),
		"$JS.API.CONSUMER.CREATE.LEDGER.sneak":                    config(sneak),
		"$JS.API.CONSUMER.CREATE.LEDGER.sneak.chain.>":            config(sneak),
		"$JS.API.CONSUMER.DURABLE.CREATE.LEDGER.sneak":            config(sneak),
		"$JS.API.CONSUMER.CREATE.LEDGER.projector.chain.>":        config(`{"durable_name":"projector","name":"projector","ack_policy":"all","filter_subject":"chain.>"}`),
		"$JS.API.CONSUMER.CREATE.KV_ledger_keys.sneak":            `{"stream_name":"KV_ledger_keys","config":{"name":"sneak"}}`,
		"$JS.API.CONSUMER.DELETE.LEDGER.projector":                ``,
		"$JS.API.CONSUMER.PAUSE.LEDGER.projector":                 `{"pause_until":"2999-01-01T00:00:00Z"}`,
		"$JS.API.CONSUMER.LEADER.STEPDOWN.LEDGER.projector":       ``,
		"$JS.API.CONSUMER.UNPIN.LEDGER.projector":                 `{"group":"g"}`,
		"$JS.API.CONSUMER.LIST.LEDGER":                            ``,
		"$JS.API.DIRECT.GET.KV_ledger_keys":                       `{"seq":1}`,
		"$JS.API.DIRECT.GET.KV_ledger_keys.$KV.ledger_keys.owner": ``,
		"$JS.API.STREAM.INFO.KV_ledger_keys":                      ``,
		"$JS.API.STREAM.MSG.GET.KV_ledger_apps":                   `{"seq":1}`,
		"$JS.API.CONSUMER.INFO.LEDGER.projector":                  ``,
		"$JS.API.CONSUMER.MSG.NEXT.LEDGER.projector":              `{"batch":1,"no_wait":true}`,
		"$JS.ACK.LEDGER.projector.1.1.1.1.0":                      `+ACK`,
		"$JS.API.CONSUMER.INFO.LEDGER.anchorer":                   ``,
		"$JS.API.CONSUMER.MSG.NEXT.LEDGER.anchorer":               `{"batch":1,"no_wait":true}`,
		"$JS.API.CONSUMER.DELETE.LEDGER.anchorer":                 ``,
		"$JS.ACK.LEDGER.anchorer.1.1.1.1.0":                       `+ACK`,
		"$JS.API.ACCOUNT.PURGE.LEDGER":                            ``,
		"$SYS.REQ.SERVER.PING":                                    ``,
		"$SYS.REQ.SERVER.PING.RAFTZ":                              `{"account":"LEDGER"}`,
		"$SYS.REQ.SERVER.PING.JSZ":                                `{"accounts":true}`,
		"$KV.ledger_keys.owner":                                   `stolen`,
		"$KV.ledger_nonces.n":                                     `forged`,
		"$KV.ledger_apps.k":                                       `forged`,
		"$JS.API.DIRECT.GET.KV_ledger_apps":                       `{"seq":1}`,
		"ledger_admin.backup":                                     `forged`,
		"$JS.API.STREAM.INFO.ledger_admin":                        ``,
		"$JS.API.STREAM.MSG.GET.ledger_admin":                     `{"seq":1}`,
		"$JS.API.STREAM.MSG.DELETE.ledger_admin":                  `{"seq":1}`,
		"$JS.API.STREAM.PURGE.ledger_admin":                       ``,
		"$JS.API.STREAM.DELETE.ledger_admin":                      ``,
		"$JS.API.CONSUMER.CREATE.ledger_admin.sneak":              `{"stream_name":"ledger_admin","config":{"name":"sneak"}}`,
		"ledger.aa.owner.memory":                                  `forged`,
		"ledger.aa.owner.session":                                 `forged`,
		"ledger.aa.owner.key":                                     `forged`,
		"ledger.aa.owner.grant":                                   `forged`,
		"ledger.aa.owner.anything":                                `forged`,
		"chain.aa.owner.batch":                                    `forged`,
	}
	for subject, body := range maps.Clone(all) { // accounts.conf maps the requests to these subjects
		if rest, ok := strings.CutPrefix(subject, "$JS.API."); ok {
			all["LEDGER.API."+rest] = body
		}
	}
	return all
}

// keystore lists the requests that both APIs make to the buckets.
var keystore = []string{"$KV.ledger_keys.", "$KV.ledger_nonces.", "$JS.API.STREAM.INFO.KV_ledger_keys", "$JS.API.STREAM.MSG.GET.KV_ledger_keys"}

// raftState asks each node whom it follows. It changes nothing.
const raftState = "$SYS.REQ.SERVER.PING.RAFTZ"

// may lists the requests, of those above, that each user needs. Entries are prefixes.
var may = map[string][]string{
	// core deletes keys, because its owners have their keys erased, and connects apps.
	"core": append([]string{"$KV.ledger_apps.", "$JS.API.STREAM.MSG.GET.KV_ledger_apps", "$JS.API.STREAM.MSG.DELETE.KV_ledger_keys", "ledger.aa.owner.memory", "ledger.aa.owner.session", "ledger.aa.owner.key", "ledger.aa.owner.grant", raftState}, keystore...),
	// extension makes no API keys.
	"extension": append([]string{"ledger.aa.owner.memory", "ledger.aa.owner.session", "ledger.aa.owner.grant", raftState}, keystore...),
	"projector": {
		raftState, "$JS.API.CONSUMER.INFO.LEDGER.projector", "$JS.API.CONSUMER.MSG.NEXT.LEDGER.projector",
	},
	"anchorer": {
		"chain.", raftState, "$JS.API.CONSUMER.INFO.LEDGER.anchorer", "$JS.API.CONSUMER.MSG.NEXT.LEDGER.anchorer",
	},
	"auditor": {raftState, "$JS.API.STREAM.INFO.ledger_admin", "$JS.API.STREAM.MSG.GET.ledger_admin"},
}

// Each attack is sent plainly, and must be refused by the sender's permissions.
func TestPlainAttacksAreRefused(t *testing.T) {
	t.Parallel()
	for user, own := range may {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			conn, refused := w.dial(user)
			sent := int64(0)
			for subject, body := range requests() {
				if hasPrefix(subject, own) {
					continue
				}
				must(t, conn.PublishRequest(subject, conn.NewInbox(), []byte(body)))
				sent++
			}
			for _, subject := range []string{">", "ledger.>", "$KV.>", "$JS.API.>", "_INBOX.>", "_INBOX_core.>", "_INBOX_extension.>", "_R_.>", "$SYS.>", "_INBOX_admin.>"} {
				if hasPrefix(subject, []string{"_INBOX_" + user}) {
					continue
				}
				must(t, errorOf(conn.SubscribeSync(subject)))
				sent++
			}
			// The server answers everything above before it answers the flush. The client
			// passes the errors to the handler in order.
			must(t, conn.FlushTimeout(10*time.Second))
			drained(t, conn)
			if got := refused.Load(); got != sent {
				t.Errorf("%d of %d were refused", got, sent)
			}
			w.wantUnhurt()
		})
	}
}

// drained closes the connection, which first delivers its pending errors.
func drained(t *testing.T, conn *nats.Conn) {
	t.Helper()
	done := make(chan struct{})
	conn.SetClosedHandler(func(*nats.Conn) { close(done) })
	must(t, conn.Drain())
	<-done
}

func hasPrefix(s string, prefixes []string) bool {
	if rest, ok := strings.CutPrefix(s, "LEDGER.API."); ok {
		s = "$JS.API." + rest
	}
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

// Each attack uses a reply: the user sends a request that it may send, and names the
// attack's subject as the reply subject. An API controls the reply's body, because the
// reply contains messages that an API wrote.
func TestAnswersAttackNobody(t *testing.T) {
	t.Parallel()
	for user, own := range may {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			conn, _ := w.dial(user)
			for subject, body := range requests() {
				if hasPrefix(subject, own) {
					continue
				}
				// Store a body for the reply to carry, as an API could.
				ack, err := w.admin.Publish(t.Context(), "ledger.bb.mole.memory", []byte(body))
				must(t, err)
				w.n = ack.Sequence
				for ask, with := range asks(user, ack.Sequence) {
					must(t, conn.PublishRequest(ask, subject, []byte(with)))
				}
				must(t, conn.FlushTimeout(10*time.Second))
				settle(t, w, user)
				if subject := appends[user]; subject != "" {
					w.n = settleAppends(t, w, conn, subject)
				}
			}
			w.wantUnhurt()
		})
	}
}

// appends has, for each user that may append, the subject that it appends to in asks.
var appends = map[string]string{"core": "ledger.cc.o.key", "extension": "ledger.cc.o.memory", "anchorer": "chain.cc.o.batch"}

// settleAppends waits until the server has stored the connection's appends after w.n, or
// has refused them because of their reply subjects. It returns the end of the log. No
// other message may have been added.
func settleAppends(t *testing.T, w *world, conn *nats.Conn, subject string) uint64 {
	t.Helper()
	js, err := jetstream.New(conn)
	must(t, err)
	ack, err := js.Publish(t.Context(), subject, []byte("x")) // stored after everything that the connection sent before
	must(t, err)
	s, err := w.admin.Stream(t.Context(), natsconf.Stream)
	must(t, err)
	for n := w.n + 1; n <= ack.Sequence; n++ {
		if msg, err := s.GetMsg(t.Context(), n); err != nil || msg.Subject != subject || string(msg.Data) != "x" {
			t.Errorf("message %d: %+v, %v", n, msg, err)
		}
	}
	return ack.Sequence
}

// asks returns the requests that a user may send.
func asks(user string, seq uint64) map[string]string {
	all := map[string]string{
		"$JS.API.DIRECT.GET.LEDGER":                       fmt.Sprintf(`{"seq":%d}`, seq),
		"$JS.API.DIRECT.GET.LEDGER.ledger.bb.mole.memory": ``,
		"$JS.API.STREAM.INFO.LEDGER":                      ``,
		"$JS.API.STREAM.MSG.GET.LEDGER":                   fmt.Sprintf(`{"seq":%d}`, seq),
	}
	if subject := appends[user]; subject != "" {
		all[subject] = `x`
	}
	switch user {
	case "core", "extension":
		all["$JS.API.STREAM.INFO.KV_ledger_keys"] = ``
		all["$JS.API.STREAM.MSG.GET.KV_ledger_keys"] = `{"last_by_subj":"$KV.ledger_keys.owner"}`
	case "auditor":
		all["$JS.API.STREAM.INFO.ledger_admin"] = ``
		all["$JS.API.STREAM.MSG.GET.ledger_admin"] = `{"seq":1}`
	case "anchorer":
		all["$JS.API.CONSUMER.INFO.LEDGER.anchorer"] = ``
		all["$JS.API.CONSUMER.MSG.NEXT.LEDGER.anchorer"] = `{"batch":1,"no_wait":true}`
	case "projector":
		all["$JS.API.CONSUMER.INFO.LEDGER.projector"] = ``
		all["$JS.API.CONSUMER.MSG.NEXT.LEDGER.projector"] = `{"batch":1,"no_wait":true}`
	}
	return all
}

// settle returns when the server has answered the user's earlier requests. It sends
// requests of the same kinds, which go through the same queues, and waits for their
// answers.
func settle(t *testing.T, w *world, user string) {
	t.Helper()
	s, err := w.as(user).Stream(t.Context(), natsconf.Stream)
	must(t, err)
	must(t, errorOf(s.GetMsg(t.Context(), 1)))
}
