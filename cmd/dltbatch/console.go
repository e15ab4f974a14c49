package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/console"
	"github.com/dltbatch/dltbatch/store"
)

// Limits of the console's server.
const (
	headerTimeLimit  = 10 * time.Second
	requestTimeLimit = 90 * time.Second // longer than the console may take for a form
	stopTimeLimit    = 5 * time.Second
)

// consoleAnswer is what "console" prints before it serves.
type consoleAnswer struct {
	URL   string `json:"url"`
	Actor string `json:"actor,omitzero"` // "": it is read-only
}

func (a *app) console() *cobra.Command {
	var listen, actor, title string
	var proxy bool
	c := &cobra.Command{
		Use: "console [flags]", Short: "The same in a browser",
		Long: `Serves package console until it is interrupted: what stands still and why, lanes, batches, orders,
instances, histories, and with --actor the acts. It asks for no password, so that whoever reaches
the address may look, and act as the actor: it serves this machine alone. --behind-proxy allows
another address, for a proxy that asks who comes. Failures are on the error output. The JSON is an
object with "url" and "actor", printed before it serves. Over several shards its first page and
its search are about all of them, and each has its own pages below.`,
	}
	c.Flags().StringVar(&listen, "listen", "127.0.0.1:8190", "the `ADDRESS` to serve at; port 0 is any free one")
	c.Flags().StringVar(&actor, "actor", "", "`NAME` of who acts, for the history; without it the console is read-only")
	c.Flags().StringVar(&title, "title", "", "the `NAME` of the product and the environment, such as \"payments, production\", for each page")
	c.Flags().BoolVar(&proxy, "behind-proxy", false, "serve at an address that others reach, too, and under any host's name")
	return a.databasesCommand(c, func(ctx context.Context, all *databases, _ []string) error {
		o := &console.Options{Title: title, Logger: a.logger()}
		if c.Flags().Changed("actor") {
			if err := (batch.By{Actor: actor}).Validate(); err != nil {
				return err
			}
			o.Actor = func(*http.Request) (string, error) { return actor, nil }
		}
		pages, err := console.New(all.list[0].Store, o)
		if all.areSeveral() {
			stores := make([]store.Store, len(all.list))
			for i, db := range all.list {
				stores[i] = db.Store
			}
			pages, err = console.NewShards(o, stores...)
		}
		if err != nil {
			return err
		}
		defer pages.Close()
		handler := http.Handler(pages)
		at, err := net.ResolveTCPAddr("tcp", listen)
		if err != nil {
			return fmt.Errorf("%w: --listen: %w", errUsage, err)
		}
		if !proxy {
			if !at.IP.IsLoopback() {
				return fmt.Errorf("%w: --listen %s is reached by others, who could act without a password: give an address such as 127.0.0.1:8190, or --behind-proxy where a proxy asks who comes", errUsage, batch.Excerpt(listen, 64))
			}
			handler = console.Local(handler)
		}
		l, err := net.ListenTCP("tcp", at)
		if err != nil {
			return fmt.Errorf("%w: --listen: %w", errUsage, err)
		}
		s := consoleAnswer{URL: "http://" + l.Addr().String() + "/", Actor: actor}
		if err := a.print(s, func(p *page) {
			p.line("the console is at %s", s.URL)
			if actor == "" {
				p.line("it is read-only: --actor NAME lets you act")
			}
		}); err != nil {
			return errors.Join(err, l.Close())
		}
		server := &http.Server{
			Handler: handler, ReadHeaderTimeout: headerTimeLimit, ReadTimeout: requestTimeLimit, WriteTimeout: requestTimeLimit, IdleTimeout: requestTimeLimit,
			ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelWarn),
		}
		server.RegisterOnShutdown(pages.Close)
		return serve(ctx, l, server)
	})
}

// serve serves until the context is done, and lets requests under way finish.
func serve(ctx context.Context, l net.Listener, s *http.Server) error {
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeLimit)
	defer cancel()
	err := s.Shutdown(stopping)
	if err != nil {
		_ = s.Close() // the error of Shutdown is returned
	}
	if end := <-ended; err == nil && !errors.Is(end, http.ErrServerClosed) {
		err = end
	}
	return err
}

// logger returns a logger that writes to the error output. It removes the data source name from
// errors.
func (a *app) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if err, is := at.Value.Any().(error); is {
			return slog.String(at.Key, a.safeText(err))
		}
		return at
	}}))
}
