package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"ticketing/internal/procs"
	"ticketing/loop"
)

// serveCmd holds the settings of a node. The tags are all there is to know
// about each: --help and the table in docs/operations.md are made from them.
type serveCmd struct {
	ListenAddr hostPort `env:"LISTEN_ADDR" default:"127.0.0.1:7400" range:"host:port; port 0 is any free port, printed" placeholder:"HOST:PORT" help:"Where clients connect."`
	AdminAddr  hostPort `env:"ADMIN_ADDR" default:"127.0.0.1:7401" range:"host:port, or empty for none" empty:"off" placeholder:"HOST:PORT" help:"Where metrics, health, profiles and the dashboard are served over HTTP."`

	Loops           count `env:"LOOPS" default:"${loops}" shown:"half the usable CPUs, at least 1" range:"1..256" placeholder:"N" help:"Event loops; each has a share of the keys."`
	MaxConnections  count `env:"MAX_CONNECTIONS" default:"1024" range:"1..8192" placeholder:"N" help:"Client connections at once; one more is closed unanswered."`
	MaxWaiters      count `env:"MAX_WAITERS" default:"2048" range:"1..16384" placeholder:"N" help:"Waiters in the queue of one key; one more is answered busy."`
	MaxTotalWaiters count `env:"MAX_TOTAL_WAITERS" default:"16384" range:"1..65536" placeholder:"N" help:"Waiters in all queues together."`
	MaxKeys         count `env:"MAX_KEYS" default:"1048576" range:"1..16777216" placeholder:"N" help:"Keys held at once."`

	AuthSecret     text   `env:"AUTH_SECRET" range:"not empty, one line" placeholder:"SECRET" help:"The secret that clients must know. Other users of the machine can see a flag: prefer the file."`
	AuthSecretFile text   `env:"AUTH_SECRET_FILE" range:"a file of secrets, one a line" placeholder:"FILE" help:"Secrets that clients may use, any of them; read again on SIGHUP. Not together with AUTH_SECRET."`
	AllowInsecure  toggle `env:"ALLOW_INSECURE" default:"false" range:"true/false" help:"Permit a LISTEN_ADDR that is not loopback without a secret, and a CLUSTER_LISTEN without TLS."`

	TLSCertFile     text `name:"tls-cert-file" env:"TLS_CERT_FILE" range:"a file of certificates in PEM" placeholder:"FILE" help:"Turns TLS on where clients connect: the certificate that they are shown, and those between it and its authority. Together with its key; read again on SIGHUP."`
	TLSKeyFile      text `name:"tls-key-file" env:"TLS_KEY_FILE" range:"a file with a private key in PEM" placeholder:"FILE" help:"The private key of that certificate; read again on SIGHUP."`
	TLSClientCAFile text `name:"tls-client-ca-file" env:"TLS_CLIENT_CA_FILE" range:"a file of certificates in PEM" placeholder:"FILE" help:"Clients must show a certificate that one of these authorities vouches for; read again on SIGHUP."`

	DrainTimeout span `env:"DRAIN_TIMEOUT" default:"10s" range:"0s..5m" placeholder:"DURATION" help:"The longest that ending may take after SIGTERM."`
	LogLevel     word `env:"LOG_LEVEL" default:"info" range:"debug/info/warn/error" placeholder:"LEVEL" help:"The least important log messages to write."`
	LogFormat    word `env:"LOG_FORMAT" default:"text" range:"text/json" placeholder:"FORMAT" help:"How log messages are written to stderr."`

	Check bool `help:"Check settings, files and limits, and end: exit code 0, or 2 or 1 and what is wrong. Nothing is bound or started."`

	clusterFlags
}

// defaultLoops is half the CPUs this process may use: the other half is left
// to the kernel's network work and to what else runs there.
func defaultLoops() int { return max(1, runtime.GOMAXPROCS(0)/2) }

// gcPercent trades a little CPU for half the garbage: a busy server allocates
// next to nothing, so the collector rarely runs at all.
const gcPercent = 50

// Run checks what no single setting can say, then starts a node and returns
// when it has ended. Every check is done before a port is bound.
func (c *serveCmd) Run(ctx context.Context, p *process) error {
	if err := checkVariables(p.environ); err != nil {
		return err
	}
	secrets, err := c.secretSource().load()
	if err != nil {
		return settingFailed(err)
	}
	encryption, err := c.tlsSource().load()
	if err != nil {
		return settingFailed(err)
	}
	client, err := resolve(ctx, listenSetting, string(c.ListenAddr))
	if err != nil {
		return err
	}
	if !client.loopback && secrets == nil && !bool(c.AllowInsecure) {
		return settingFailed(&settingError{client.setting, client.quoted(),
			"not loopback; allowed only with AUTH_SECRET_FILE, AUTH_SECRET or ALLOW_INSECURE=true"})
	}
	if given := string(c.AdminAddr); given == string(c.ListenAddr) && !strings.HasSuffix(given, ":0") {
		return settingFailed(&settingError{adminSetting, strconv.Quote(given),
			"the same as " + listenSetting + "; allowed is another host:port, or empty for none"})
	}
	member, err := c.clusterConfig()
	if err != nil {
		return settingFailed(err)
	}
	maxKeys, moreFiles := int(c.MaxKeys), 0
	if member != nil {
		maxKeys, moreFiles = loop.ClusterMaxKeys, clusterFiles
	}
	if err := fitFiles(int(c.MaxConnections), int(c.Loops), moreFiles); err != nil {
		return environmentFailed(err)
	}
	if c.Check {
		return c.checked(ctx, p)
	}
	if _, given := lookup(p.environ, "GOGC"); !given {
		debug.SetGCPercent(gcPercent)
	}
	n := &node{
		process: p,
		log:     newLogger(p.stderr, string(c.LogLevel), string(c.LogFormat)),
		secrets: c.secretSource(),
		tls:     c.tlsSource(),
	}
	if member != nil {
		member.Logger = n.log
		n.memberConfig = member
		if insecurePeers(member) {
			n.log.Warn("ALLOW_INSECURE: every host that reaches this node's port for the others can take part in the cluster", "cluster_peers", c.ClusterPeers.value)
		}
	}
	if encryption != nil {
		logCertificate(n.log, "TLS for clients", encryption)
	}
	if !client.loopback && secrets == nil {
		who := "every host that reaches this address"
		if c.TLSClientCAFile.given {
			who += " and has a certificate of TLS_CLIENT_CA_FILE"
		}
		n.log.Warn("ALLOW_INSECURE: "+who+" can take and release locks", "addr", client.addr)
	}
	return n.run(ctx, string(c.AdminAddr), loop.Config{
		ListenAddr:      client.addr,
		Loops:           int(c.Loops),
		MaxConnections:  int(c.MaxConnections),
		MaxWaiters:      int(c.MaxWaiters),
		MaxTotalWaiters: int(c.MaxTotalWaiters),
		MaxKeys:         maxKeys,
		DrainTimeout:    time.Duration(c.DrainTimeout),
		Secrets:         secrets,
		TLS:             encryption,
		Logger:          n.log,
		Processors:      procs.New(int(c.Loops)),
	})
}
