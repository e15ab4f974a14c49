package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// No error, help or answer of any command shows the data source name or a part of its secrets.
func TestNoSecrets(t *testing.T) {
	const secret = "hunter2-Zq"
	missing := filepath.Join(t.TempDir(), "missing-"+secret+".db")
	for name, c := range map[string]struct {
		dsn  string
		code int
	}{
		"refused connection":     {"postgres://ada:" + secret + "@127.0.0.1:1/db?connect_timeout=2", exitFailed},
		"keyword form":           {"host=127.0.0.1 port=1 user=ada password=" + secret, exitFailed},
		"bad port":               {"postgres://ada:" + secret + "@127.0.0.1:nine/db", exitUsage},
		"bad escape":             {"postgres://ada:" + secret + "%zz@127.0.0.1/db", exitUsage},
		"unknown option":         {"postgres://ada:" + secret + "@127.0.0.1/db?sslmode=" + secret, exitUsage},
		"typing error":           {"postgress://ada:" + secret + "@127.0.0.1/db", exitUsage},
		"no such file":           {missing, exitFailed},
		"no such folder":         {filepath.Join(missing, "queue.db"), exitFailed},
		"a folder with a prefix": {"sqlite:" + t.TempDir() + "/" + secret + "/..", exitFailed},
		"a folder":               {filepath.Join(t.TempDir(), secret) + "/..", exitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			for _, args := range [][]string{
				{"status"}, {"status", "--json"}, {"status", "--dsn", c.dsn}, {"--dsn=" + c.dsn, "list"},
				{"status", "--schema", "other", "--json"},
			} {
				s := &testCommand{T: t, dsn: c.dsn}
				got := s.runWithInput("", args...)
				assert.NotEqual(t, exitDone, got.code)
				if len(args) < 4 {
					assert.Equal(t, c.code, got.code, got.err)
				}
				assert.NotContains(t, got.out+got.err, secret)
			}
		})
	}
	for _, args := range [][]string{
		{"--help"}, {"list", "--help"}, {"postgres://ada:" + secret + "@h/db"}, {"status", "postgres://ada:" + secret + "@h/db"},
		{"--dsnpostgres://ada:" + secret + "@h/db", "status"}, {"status", "--password=" + secret}, {},
		{"-dsn", `host=h password='it\'s ` + secret + `'`}, {"list", `host=h password='it\'s ` + secret + `'`},
		{"list", "--dsn", "x", `-dsn=host=h password="a ` + secret + `"`}, {"-vhost=h password='it\\'s " + secret + "'"},
		{"postgres://ada:a b" + secret + "@h/db"}, {"list", "--lmit", "postgres://ada:x " + secret + "@h/db"},
		{"list", "--limit", "postgres://ada:x " + secret + "@h/db"}, {"--dsnpostgres://ada:a " + secret + "=@h/db", "list"},
		{"list", "--state", "postgres://ada:a " + secret + "@h/db"}, {"search", "--cause", "host=h PASSWORD = 'a " + secret + strings.Repeat("x", 99) + "'"},
		{"bulk", "preview", "decide", "--to", "postgres://ada:a \t\"" + secret + "@h/db"}, {"prune", "--older-than", "postgres://ada:a " + secret + "@h/db"},
	} {
		s := &testCommand{T: t, dsn: "postgres://ada:" + secret + "@127.0.0.1:1/db"}
		got := s.runWithInput("", args...)
		assert.NotContains(t, got.out+got.err, secret, "%v", args)
	}
}
