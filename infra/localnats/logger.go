package localnats

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// logger turns the server's lines into slog records.
type logger struct {
	log   *slog.Logger
	fatal chan string // why the server cannot start; holds the first reason
}

func (l *logger) write(level slog.Level, format string, args []any) {
	l.log.Log(context.Background(), level, fmt.Sprintf(format, args...))
}

func (l *logger) Noticef(format string, args ...any) { l.write(slog.LevelDebug, format, args) }
func (l *logger) Debugf(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l *logger) Tracef(format string, args ...any)  { l.write(slog.LevelDebug, format, args) }
func (l *logger) Errorf(format string, args ...any)  { l.write(slog.LevelError, format, args) }

func (l *logger) Warnf(format string, args ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, "Plaintext passwords") {
		level = slog.LevelDebug // ours is 32 random bytes, which only this user can read
	}
	l.write(level, format, args)
}

func (l *logger) Fatalf(format string, args ...any) {
	l.write(slog.LevelError, format, args)
	select {
	case l.fatal <- fmt.Sprintf(format, args...):
	default:
	}
}
