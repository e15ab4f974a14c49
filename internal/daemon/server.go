package daemon

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
)

// Server is a program that serves HTTP on a port of 127.0.0.1, and that may be down. The zero
// value has not started yet. Its methods must be called by one goroutine at a time.
type Server struct {
	port    string
	process *Process // nil while the program is down
}

// Port returns the port for the command line. Before the first start it is 0, which means any free
// port; after that it is always the same port.
func (s *Server) Port() string {
	if s.port == "" {
		return "0"
	}
	return s.port
}

// StartProgram starts the program, and waits until a line of its output contains ready. In that
// line, the text after before, up to a space, is the address.
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

// Kill ends the program with SIGKILL.
func (s *Server) Kill() error {
	if s.process == nil {
		return nil
	}
	err := s.process.Crash()
	s.process = nil
	return err
}

// Stop ends the program with a signal, so that the program can write its state.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Stop()
		s.process = nil
	}
}
