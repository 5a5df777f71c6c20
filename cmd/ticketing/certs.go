package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// certsCmd makes what TLS needs for a start: two authorities, and certificates
// that they vouch for. They are two because whoever has a certificate of the
// nodes' authority is a node: a client's certificate must not be one.
type certsCmd struct {
	Dir    text        `default:"certs" range:"a directory; made if it is not there" placeholder:"DIR" help:"Where the files go."`
	Valid  span        `default:"8760h" range:"1h..87600h" placeholder:"DURATION" help:"How long certificates are valid."`
	Server []certNames `range:"NAME=HOST,HOST..." sep:"none" placeholder:"NAME=HOST,..." help:"A certificate for the client port of a server. May be repeated."`
	Client []fileName  `range:"1 to 64 letters, digits and . _ -" sep:"none" placeholder:"NAME" help:"A certificate for a client to show. May be repeated."`
	Nodes  []certNames `arg:"" optional:"" name:"node" range:"NAME=HOST,HOST..., hosts without a port" help:"A node's CLUSTER_NODE_ID, and the hosts that CLUSTER_PEERS has for it: NAME=HOST,HOST..."`
}

// authorityValid is how long the authorities are: a new one has to reach every
// node.
const authorityValid = 10 * 365 * 24 * time.Hour

// The authorities' files are called this, and .crt or .key.
const (
	nodesCA   = "nodes-ca"
	clientsCA = "clients-ca"
)

// Run makes what is asked for. Nothing that is there is ever replaced, and when
// something fails, nothing new is left behind.
func (c *certsCmd) Run(_ context.Context, p *process) (err error) {
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	if len(c.Nodes)+len(c.Server)+len(c.Client) == 0 {
		return settingFailed(errors.New("nothing is asked for: give a node as NAME=HOST, --server or --client"))
	}
	out := &certsDir{dir: c.Dir.value, now: time.Now(), valid: time.Duration(c.Valid)}
	if err := out.check(c.wanted()); err != nil {
		return environmentFailed(err)
	}
	defer func() {
		if err != nil {
			out.removeMade()
		}
	}()
	if err := out.make(c.wanted()); err != nil {
		return environmentFailed(err)
	}
	for _, line := range out.told {
		if _, err := fmt.Fprintln(p.stdout, line); err != nil {
			return environmentFailed(err)
		}
	}
	return nil
}

// A wantedCert is a certificate that is asked for.
type wantedCert struct {
	file  string // without .crt and .key
	by    string // authority
	name  string
	hosts []string // none: of a client
	both  bool     // shown by whoever connects as well, as between nodes
}

func (c *certsCmd) wanted() (all []wantedCert) {
	for _, n := range c.Nodes {
		all = append(all, wantedCert{file: n.name, by: nodesCA, name: n.name, hosts: n.hosts, both: true})
	}
	for _, s := range c.Server {
		all = append(all, wantedCert{file: s.name + "-server", by: clientsCA, name: s.name, hosts: s.hosts})
	}
	for _, name := range c.Client {
		all = append(all, wantedCert{file: string(name) + "-client", by: clientsCA, name: string(name)})
	}
	return all
}

// certsDir is the directory that certificates are made in.
type certsDir struct {
	dir   string
	now   time.Time
	valid time.Duration
	made  []string
	told  []string
}

func (d *certsDir) path(name string) string { return filepath.Join(d.dir, name) }

// check refuses to replace what is there, before anything is made.
func (d *certsDir) check(all []wantedCert) error {
	seen := map[string]bool{}
	for _, w := range all {
		if seen[w.file] || w.file == nodesCA || w.file == clientsCA {
			return fmt.Errorf("%s.crt would be made twice: give each another name", w.file)
		}
		seen[w.file] = true
		for _, name := range []string{w.file + ".crt", w.file + ".key"} {
			if _, err := os.Lstat(d.path(name)); err == nil {
				return fmt.Errorf("%s is there already and is not replaced: move it away first", d.path(name))
			}
		}
	}
	return nil
}

func (d *certsDir) make(all []wantedCert) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	for _, ca := range []string{nodesCA, clientsCA} {
		of := slices.DeleteFunc(slices.Clone(all), func(w wantedCert) bool { return w.by != ca })
		if len(of) == 0 {
			continue
		}
		by, err := d.authority(ca)
		if err != nil {
			return err
		}
		for _, w := range of {
			if err := d.issue(by, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// authority returns the authority that is in the directory, or makes it.
func (d *certsDir) authority(name string) (*issuer, error) {
	crt, key := d.path(name+".crt"), d.path(name+".key")
	_, crtErr := os.Lstat(crt)
	_, keyErr := os.Lstat(key)
	if crtErr == nil && keyErr == nil {
		return loadIssuer(crt, key)
	}
	if crtErr == nil || keyErr == nil {
		return nil, fmt.Errorf("of %s and %s only one is there: bring the other, or move it away for a new authority", crt, key)
	}
	by, pair, err := newIssuer("Ticketing "+strings.TrimSuffix(name, "-ca")+" authority", d.now, authorityValid)
	if err != nil {
		return nil, err
	}
	if err := d.write(name, pair); err != nil {
		return nil, err
	}
	d.tell(name, "authority of "+strings.TrimSuffix(name, "-ca"), by.cert.NotAfter)
	return by, nil
}

func (d *certsDir) issue(by *issuer, w wantedCert) error {
	until := d.now.Add(d.valid)
	if until.After(by.cert.NotAfter) {
		return fmt.Errorf("%s.crt would be valid until %s, and its authority is only until %s: shorten --valid, or move the authority away for a new one",
			w.file, day(until), day(by.cert.NotAfter))
	}
	pair, err := by.issue(w.name, w.hosts, w.both, d.now, until)
	if err != nil {
		return err
	}
	if err := d.write(w.file, pair); err != nil {
		return err
	}
	what := "client " + w.name
	if len(w.hosts) > 0 {
		what = "server " + w.name + " at " + strings.Join(w.hosts, ", ")
	}
	if w.both {
		what = "node " + w.name + " at " + strings.Join(w.hosts, ", ")
	}
	d.tell(w.file, what, until)
	return nil
}

func (d *certsDir) tell(file, what string, until time.Time) {
	d.told = append(d.told, fmt.Sprintf("%s.{crt,key}: %s, valid until %s", d.path(file), what, day(until)))
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// write makes NAME.crt and NAME.key.
func (d *certsDir) write(name string, pair pemPair) error {
	if err := d.create(d.path(name+".key"), pair.key, 0o600); err != nil {
		return err
	}
	return d.create(d.path(name+".crt"), pair.cert, 0o644)
}

func (d *certsDir) create(path string, data []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	d.made = append(d.made, path)
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func (d *certsDir) removeMade() {
	for _, path := range d.made {
		os.Remove(path)
	}
}

// fileName is a name that files are called by, and Raft's members.
type fileName string

// certNames is a name with the hosts that it is reached at.
type certNames struct {
	name  string
	hosts []string
}

// maxName is the longest name of a node.
const maxName = 64

func validName(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '.' || name[0] == '-' {
		return false
	}
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == ""
}

// Decode implements kong.MapperValue.
func (n *fileName) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, _ string) bool {
		*n = fileName(given)
		return validName(given)
	})
}

// Decode implements kong.MapperValue.
func (n *certNames) Decode(ctx *kong.DecodeContext) error {
	return decode(ctx, func(given, _ string) bool {
		name, hosts, ok := strings.Cut(given, "=")
		n.name, n.hosts = name, strings.Split(hosts, ",")
		return ok && validName(name) && !slices.ContainsFunc(n.hosts, func(host string) bool { return !validHost(host) })
	})
}

// validHost reports whether a certificate can be for host: an IP address or a
// name as of DNS.
func validHost(host string) bool {
	if net.ParseIP(host) != nil {
		return true
	}
	if host == "" || len(host) > 253 {
		return false
	}
	for _, label := range strings.Split(host, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' ||
			strings.Trim(label, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			return false
		}
	}
	return true
}
