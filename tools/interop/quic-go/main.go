// quic-go as a client of edge-server: tries the cases that are named, and says in
// a line of JSON what came of each. See tools/interop/README.md.
package main

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// outcome is the line about a case. Only downloads have times.
type outcome struct {
	Case   string `json:"case"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	*times
}

// downloads is how the name of a case begins that downloads the object behind it.
const downloads = "download:"

func main() {
	if len(os.Args) < 5 {
		fmt.Fprintln(os.Stderr, "usage: quic-go URL CERTIFICATE OBJECTS CASE...")
		os.Exit(2)
	}
	target, err := newTarget(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	lines := json.NewEncoder(os.Stdout)
	for _, name := range os.Args[4:] {
		var detail string
		var found *times
		if path, ok := strings.CutPrefix(name, downloads); ok {
			detail, found, err = target.download(path)
		} else {
			detail, err = target.run(name)
		}
		if err != nil {
			detail = err.Error()
		}
		if err := lines.Encode(outcome{name, err == nil, detail, found}); err != nil {
			os.Exit(1)
		}
	}
}

// target is the server, and what it serves.
type target struct {
	url     string
	roots   *x509.CertPool
	objects map[string]string
}

func newTarget(url, certificate, objects string) (*target, error) {
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return nil, err
	}
	t := &target{url: strings.TrimSuffix(url, "/"), roots: x509.NewCertPool()}
	if !t.roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", certificate)
	}
	list, err := os.ReadFile(objects)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(list, &t.objects); err != nil {
		return nil, fmt.Errorf("%s: %w", objects, err)
	}
	return t, nil
}
