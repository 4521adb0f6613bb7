package assembly

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go"
)

var plainUser = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// inboxPrefix is where answers to a user go: each may listen to its own only.
// Without a user in the URL it is the library's default.
func inboxPrefix(url string) []nats.Option {
	user := userOf(url)
	if !plainUser.MatchString(user) {
		return nil
	}
	return []nats.Option{nats.CustomInboxPrefix("_INBOX_" + user)}
}

// userOf returns the user of the first of the servers that a NATS URL lists.
func userOf(list string) string {
	first, _, _ := strings.Cut(list, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}
