package main

import (
	"context"
	"errors"
	"io"

	"github.com/dltbatch/dltbatch/examples/internal/demo"
)

// worker sends the transfers. If it ends by itself, it sends its error on ended.
type worker interface {
	Start() (ended <-chan error, err error)
	Stop() error
}

// work is a whole worker process: it runs the service until its standard input ends.
func work(in io.Reader) error {
	return demo.Work(in, func(ctx context.Context, j job) error {
		s, err := open(ctx, j)
		if err != nil {
			return err
		}
		defer s.close()
		return s.run(ctx)
	})
}

// local is a worker in this process.
type local struct {
	service *service
	cancel  context.CancelFunc
	ended   chan error
}

func inProcess(s *service) *local { return &local{service: s} }

func (l *local) Start() (<-chan error, error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	l.cancel, l.ended = cancel, ended
	go func() {
		defer close(ended)
		if err := l.service.run(ctx); err != nil {
			ended <- err
		}
	}()
	return ended, nil
}

func (l *local) Stop() error {
	if l.cancel == nil {
		return nil
	}
	l.cancel()
	return errors.Join(<-l.ended)
}
