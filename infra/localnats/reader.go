package localnats

import (
	"fmt"
	"net/url"

	"github.com/nats-io/nats-server/v2/server"
)

// Reader is the user who may read Config.ReadStream and Config.AdminStream, and do nothing
// else.
const Reader = "auditor"

// readSubjects returns the requests that a reader may send. They are the auditor's
// requests in infra/nats/accounts.conf. The value says whether the answer is one message
// or several.
func readSubjects(stream, admin string) map[string]server.ServiceRespType {
	subjects := map[string]server.ServiceRespType{
		"$JS.API.DIRECT.GET." + stream:        server.Streamed,
		"$JS.API.DIRECT.GET." + stream + ".>": server.Streamed,
		"$JS.API.STREAM.INFO." + stream:       server.Singleton,
		"$JS.API.STREAM.MSG.GET." + stream:    server.Singleton,
	}
	if admin != "" {
		subjects["$JS.API.STREAM.INFO."+admin] = server.Singleton
		subjects["$JS.API.STREAM.MSG.GET."+admin] = server.Singleton
	}
	return subjects
}

// reading makes the readers' account and its user. Readers have a separate account
// because a client chooses the reply subject of its request: in the streams' account, the
// reply to a read could be an append. The top of infra/nats/accounts.conf explains more.
func reading(ns *server.Server, stream, admin string) (*server.User, error) {
	account, _ := ns.LookupOrRegisterAccount("AUDITOR")
	streams := ns.GlobalAccount()
	// Every account answers $JS.API.> itself, with "not enabled". Map the reader's
	// requests to the other name under which the real subjects are imported.
	if err := account.AddMapping("$JS.API.>", "LEDGER.API.>"); err != nil {
		return nil, fmt.Errorf("map the reader's requests: %w", err)
	}
	user := &server.User{Username: Reader, Account: account, Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{},
		// The account has one user, so any inbox will do; the nats command uses
		// the default one.
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "_INBOX_" + Reader + ".>"}},
	}}
	for subject, answers := range readSubjects(stream, admin) {
		imported := "LEDGER.API." + subject[len("$JS.API."):]
		if err := streams.AddServiceExportWithResponse(subject, answers, []*server.Account{account}); err != nil {
			return nil, fmt.Errorf("export %s: %w", subject, err)
		}
		if err := account.AddServiceImport(streams, imported, subject); err != nil {
			return nil, fmt.Errorf("import %s: %w", subject, err)
		}
		user.Permissions.Publish.Allow = append(user.Permissions.Publish.Allow, imported)
	}
	return user, nil
}

// ReadURL is URL with the credential of a user who may read Config.ReadStream and
// do nothing else. It is empty if Config.ReadStream is empty.
func (s *Server) ReadURL() string {
	if s.reader.Load() == nil {
		return ""
	}
	return s.urlOf(url.UserPassword(Reader, s.readPassword))
}
