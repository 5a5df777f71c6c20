package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/xiang90/probing"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	"go.etcd.io/etcd/server/v3/etcdserver/api/snap"
	stats "go.etcd.io/etcd/server/v3/etcdserver/api/v2stats"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"ticketing/cluster/core"
	"ticketing/cluster/state"
)

// links are the connections to the other nodes: etcd's rafthttp carries raft's
// messages, and questions of our own (hello.go) find out who is there. Between
// start and stop the goroutine of run owns known.
type links struct {
	node   *Node
	client *http.Client
	rt     *rafthttp.Transport
	server *http.Server
	change chan struct{} // holds one: the members may have changed
	known  map[uint64]*peer
}

// peer is another node, as this one's links see it.
type peer struct {
	member state.Member
	url    string
	silent int  // questions in a row without an answer
	warned bool // of what it answered
	asking bool // a question is under way
}

func newLinks(n *Node) *links {
	return &links{node: n, change: make(chan struct{}, 1), known: map[uint64]*peer{}}
}

// start begins to take what other nodes send.
func (l *links) start() error {
	n := l.node
	var err error
	if l.client, err = newClient(&n.cfg); err != nil {
		return err
	}
	self, err := url.Parse(l.urlOf(state.Member{Peer: n.cfg.peerAddr(), Instance: n.identity.Instance}, "from"))
	if err != nil {
		return err
	}
	l.rt = &rafthttp.Transport{
		Logger:      newZap(slog.New(hushed{n.log.Handler()})),
		DialTimeout: dialTimeout,
		TLSInfo:     n.cfg.tls(),
		ID:          types.ID(n.id),
		URLs:        types.URLs{*self},
		ClusterID:   types.ID(n.identity.ClusterID),
		Raft:        (*receiver)(n),
		Snapshotter: snap.New(n.disk.lg, n.disk.snapDir()),
		ServerStats: stats.NewServerStats(n.cfg.Node, types.ID(n.id).String()),
		LeaderStats: stats.NewLeaderStats(n.disk.lg, types.ID(n.id).String()),
		ErrorC:      make(chan error, 1),
	}
	if err := l.rt.Start(); err != nil {
		return fmt.Errorf("CLUSTER_TLS_CERT_FILE, _KEY_FILE, _CA_FILE: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/raft", l.check(l.rt.Handler()))
	mux.Handle("/raft/", l.check(l.rt.Handler()))
	mux.HandleFunc("POST "+helloPath, n.handleHello)
	mux.Handle("GET /{$}", probing.NewHandler()) // rafthttp's prober appends its path to the query of our URLs
	l.server = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second,
		ConnState:         new(strangers).follow,
		ErrorLog:          slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	go l.server.Serve(n.ln) // ends with stop
	return nil
}

// urlOf is where a member is reached. The query of it travels in every request:
// it says which instance is meant, or is speaking.
func (l *links) urlOf(m state.Member, key string) string {
	u := url.URL{Scheme: l.node.cfg.scheme(), Host: m.Peer}
	if m.Instance != "" {
		u.RawQuery = url.Values{key: {m.Instance}}.Encode()
	}
	return u.String()
}

// check refuses what comes from, or is meant for, another instance than the one
// that is a member: a disk that was wiped has forgotten how it voted.
func (l *links) check(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, err := types.IDFromString(r.Header.Get("X-Server-From"))
		if err != nil {
			http.Error(w, "no sender", http.StatusBadRequest)
			return
		}
		said := ""
		if u, err := url.Parse(r.Header.Get("X-PeerURLs")); err == nil {
			said = u.Query().Get("from")
		}
		r.Header.Del("X-PeerURLs") // the members say where nodes are, not requests
		if m, ok := l.node.view.Load().member(uint64(from)); ok && m.Instance != "" && m.Instance != said {
			http.Error(w, "another instance of "+m.Name+" is the member", http.StatusConflict)
			return
		}
		if to := r.URL.Query().Get("to"); to != "" && to != l.node.identity.Instance {
			http.Error(w, "this is another instance", http.StatusConflict)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// send sends messages. It never blocks; what cannot be sent is dropped.
func (l *links) send(messages []*raftpb.Message) {
	if len(messages) > 0 {
		l.rt.Send(messages)
	}
}

func (l *links) membersChanged() {
	select {
	case l.change <- struct{}{}:
	default:
	}
}

// run keeps the links to the members that there are, until stop is closed.
func (l *links) run(stop <-chan struct{}) {
	ticker := time.NewTicker(helloEvery)
	defer ticker.Stop()
	answers := make(chan answer, 16)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if len(l.node.view.Load().Members) == 0 { // a newcomer: the log will say who is there
		for _, p := range l.node.cfg.Peers {
			if p.Name != l.node.cfg.Node {
				l.link(state.Member{ID: NodeID(p.Name), Name: p.Name, Peer: p.Addr})
			}
		}
	}
	for {
		select {
		case <-stop:
			return
		case <-l.change:
			l.update()
			l.node.introduce()
		case <-ticker.C:
			l.askAll(ctx, answers)
		case a := <-answers:
			l.hear(&a)
		case err := <-l.rt.ErrorC:
			l.node.log.Debug("a connection between nodes", "error", err) // hello says more
		}
	}
}

// update makes the links those to the present members.
func (l *links) update() {
	v := l.node.view.Load()
	for _, m := range v.Members {
		if m.ID != l.node.id {
			l.link(m)
		}
	}
	if len(v.Members) == 0 {
		return // not told yet, by the log
	}
	for id := range l.known {
		if _, ok := v.member(id); !ok {
			l.rt.RemovePeer(types.ID(id))
			delete(l.known, id)
		}
	}
}

// link begins or corrects the link to a member.
func (l *links) link(m state.Member) {
	target := l.urlOf(m, "to")
	if _, err := types.NewURLs([]string{target}); err != nil { // rafthttp would panic
		l.node.log.Error("a member's address cannot be used", "node", m.Name, "peer", m.Peer, "error", err)
		return
	}
	p := l.known[m.ID]
	switch {
	case p == nil:
		p = &peer{}
		l.known[m.ID] = p
		l.dial(m.ID, target)
	case p.url != target:
		l.rt.UpdatePeer(types.ID(m.ID), []string{target})
	}
	p.member, p.url = m, target
}

// renew makes new connections to a node that was out of reach: the old ones may
// hang.
func (l *links) renew(p *peer) {
	l.rt.RemovePeer(types.ID(p.member.ID))
	l.dial(p.member.ID, p.url)
}

// dial begins the connections to a node. What was to go to it before is lost, and
// rafthttp tells nobody: neither of what had no connection to go by, nor of what
// still waited for one that was removed. So raft is told here; a snapshot that it
// believes to be under way would keep it from sending anything else for ever.
func (l *links) dial(id uint64, url string) {
	l.rt.AddPeer(types.ID(id), []string{url})
	r := (*receiver)(l.node)
	r.ReportUnreachable(id)
	r.ReportSnapshot(id, raft.SnapshotFailure)
}

func (l *links) stop() {
	l.server.Close()
	l.rt.Stop()
}

// receiver is what rafthttp hands messages to.
type receiver Node

// errFull is for a message that came while too many waited.
var errFull = errors.New("too many messages wait")

// Process takes a message in.
func (r *receiver) Process(_ context.Context, m *raftpb.Message) error {
	if !r.inbox.message(m) {
		r.meter.overheard.Add(1)
		return errFull
	}
	return nil
}

// IsIDRemoved is asked about nodes that dial. Who is no member is not answered,
// which is enough: hello tells it why.
func (r *receiver) IsIDRemoved(uint64) bool { return false }

// ReportUnreachable is told when a message was probably lost.
func (r *receiver) ReportUnreachable(id uint64) {
	r.inbox.call(func(c *core.Core) { c.Unreachable(id) })
}

// ReportSnapshot is told what became of a snapshot.
func (r *receiver) ReportSnapshot(id uint64, status raft.SnapshotStatus) {
	r.inbox.call(func(c *core.Core) { c.SnapshotSent(id, status == raft.SnapshotFinish) })
}
