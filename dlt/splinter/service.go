package splinter

import (
	"net/url"
	"strings"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/internal/wire"
	"github.com/dltbatch/dltbatch/internal/redact"
)

// serviceName is a service id, divided into its parts
// (docs/ledgers/splinter.md#services-tokens-and-connections).
type serviceName struct{ circuit, service string }

// parseService reads "circuit::service". The circuit is five letters or digits, a hyphen and
// five more; the service is four.
func parseService(s batch.ServiceID) (serviceName, error) {
	circuit, service, found := strings.Cut(string(s), "::")
	left, right, hyphen := strings.Cut(circuit, "-")
	if !found || !hyphen || !isAlphanumeric(left, 5) || !isAlphanumeric(right, 5) || !isAlphanumeric(service, 4) {
		return serviceName{}, &batch.InputError{
			Field: "Service", Value: batch.Excerpt(string(s), 64), Want: "circuit::service, such as aaaaa-bbbbb::a000",
		}
	}
	return serviceName{circuit: circuit, service: service}, nil
}

func isAlphanumeric(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range n {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// parseNode reads a node's URL.
func parseNode(field, s string) (*url.URL, error) {
	return wire.ParseURL(field, s, "http://localhost:8080", "Options.Token and Options.Header can carry")
}

// location is a service and the node that runs it.
type location struct {
	id      batch.ServiceID
	node    string // the base URL as it was given
	rootURL *url.URL

	circuit    string
	shownURL   string   // the part of root that may be shown
	circuitURL *url.URL // the URL of the node's record of the circuit
}

func (c *Client) locate(service batch.ServiceID) (location, error) {
	n, err := parseService(service)
	if err != nil {
		return location{}, err
	}
	node := c.baseURL
	if c.options.Node != nil {
		if chosen := c.options.Node(service); chosen != "" {
			node = chosen
		}
	}
	parsed, known := c.nodeURLs.Load(node)
	if !known {
		u, err := parseNode("Options.Node", node)
		if err != nil {
			return location{}, err
		}
		parsed, _ = c.nodeURLs.LoadOrStore(node, u)
	}
	u := parsed.(*url.URL) //nolint:forcetypeassert // the map has only URLs
	return location{
		id: service, node: node, rootURL: u.JoinPath("scabbard", n.circuit, n.service),
		circuit: n.circuit, shownURL: redact.ShownURL(u) + "/scabbard/" + n.circuit + "/" + n.service,
		circuitURL: u.JoinPath("admin", "circuits", n.circuit),
	}, nil
}
