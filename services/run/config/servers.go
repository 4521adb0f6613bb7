package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// servers checks the addresses of the log and the database. An address may hold a
// password, and the clients' errors quote the address. So servers does not repeat these
// errors.
func (c *Config) servers() []error {
	var errs []error
	for address := range strings.SplitSeq(c.NATSURL, ",") {
		address = strings.TrimSpace(address)
		if address != "" && !strings.Contains(address, "://") {
			address = "nats://" + address // as the client reads it
		}
		if _, err := url.Parse(address); err != nil {
			errs = append(errs, errors.New("NATS_URL: not one or more URLs"))
			break
		}
	}
	if c.DatabaseURL != "" {
		_, err := pgxpool.ParseConfig(c.DatabaseURL)
		var file *fs.PathError // a certificate file in the URL
		switch {
		case errors.As(err, &file):
			errs = append(errs, fmt.Errorf("DATABASE_URL: %w", file))
		case err != nil:
			errs = append(errs, errors.New("DATABASE_URL: not a URL of a PostgreSQL database"))
		}
	}
	return errs
}
