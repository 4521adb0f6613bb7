package config

import (
	"errors"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// servers says what is wrong with the addresses of log and database. They may
// hold passwords, which the clients' own errors repeat: these don't.
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
		if _, err := pgxpool.ParseConfig(c.DatabaseURL); err != nil {
			errs = append(errs, errors.New("DATABASE_URL: not a URL of a PostgreSQL database"))
		}
	}
	return errs
}
