package daemon

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
)

// Server is a program that serves HTTP on a port of 127.0.0.1, and that may be down. The zero
// value has not started yet. One goroutine at a time calls its methods.
type Server struct {
	port    string
	process *Process // nil while it is down
}

// Port is the port for the command line: 0, any free one, before the first start, and always the
// same one after it.
func (s *Server) Port() string {
	if s.port == "" {
		return "0"
	}
	return s.port
}

// StartProgram starts the program, and waits until a line of its output contains ready. In that
// line the address follows on before, up to a space.
func (s *Server) StartProgram(cmd *exec.Cmd, ready, before string) error {
	p, err := Run(cmd, ready, syscall.SIGTERM)
	if err != nil {
		return err
	}
	_, addr, _ := strings.Cut(p.ReadyLine(), before)
	addr, _, _ = strings.Cut(addr, " ")
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		p.Stop()
		return fmt.Errorf("%s says %q: %w", cmd.Path, p.ReadyLine(), err)
	}
	s.process, s.port = p, port
	return nil
}

// URL returns the address.
func (s *Server) URL() string { return "http://" + net.JoinHostPort("127.0.0.1", s.port) }

// Kill ends the program without a warning.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Crash()
	s.process = nil
	return err
}

// Stop ends the program with a signal, so that it writes down what it has.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Stop()
		s.process = nil
	}
}
