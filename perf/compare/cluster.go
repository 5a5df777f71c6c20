package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clusterSection is a cluster of three processes on this machine beside one etcd,
// both with their logs on the same disk.
type clusterSection struct {
	Date       string       `json:"date"`
	Version    string       `json:"version"`
	Load       [2]float64   `json:"load_average"` // of the machine, before and after
	FileSystem string       `json:"file_system"`
	Fdatasync  float64      `json:"fdatasync_p50_us"` // of a small append, with nothing beside it
	Rows       []clusterRow `json:"rows"`
	ByEtcd     spread       `json:"pairs_by_etcd"`  // at 64×1, round by round
	Moved      int          `json:"leader_changes"` // while it was measured
}

// clusterRow is one server in one shape.
type clusterRow struct {
	Shape    shape   `json:"shape"`
	Figures  figures `json:"figures"`                // server CPU: that of the leader
	Follower spread  `json:"follower_cpu_us"`        // of one of them, for each pair
	Entry    float64 `json:"pairs_in_entry"`         // pairs to an entry of the log
	Fsync    float64 `json:"leader_fsync_p50_us"`    // by the node's own account
	Behind   float64 `json:"follower_fsync_p50_us"`  // likewise
	Entries  float64 `json:"log_entries_per_second"` //
}

const (
	clusterID    = "ticketing-cluster"
	clusterTitle = "Ticketing, three nodes"
)

// clusterShapes are those of the targets: beside etcd, at full load, one at a time.
var clusterShapes = []shape{{64, 1}, {16, 64}, {1, 1}}

// measureCluster starts all, and lets the cluster and etcd have their turns.
func measureCluster(o *options) (*clusterSection, error) {
	dir, err := os.MkdirTemp(filepath.Dir(o.binary), "compare-cluster-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	s := &clusterSection{Date: time.Now().UTC().Format(time.DateOnly), FileSystem: fileSystem(dir)}
	s.Load[0] = loadAverage()
	s.Version = firstLine(o.binary, "version")
	nodes, err := startNodes(o, dir)
	defer func() {
		for _, p := range nodes {
			p.stop()
		}
	}()
	if err != nil {
		return nil, err
	}
	c := &clusterLoad{nodes: nodes, patience: 20 * time.Second}
	defer c.drop()
	for _, sh := range clusterShapes {
		if err := s.measureShape(o, c, sh, dir); err != nil {
			return nil, fmt.Errorf("cluster, %v: %w", sh, err)
		}
	}
	s.Load[1], s.Moved = loadAverage(), c.moved
	s.say(o)
	return s, nil
}

// measureShape has the turns of one shape: beside etcd at 64×1, beside bare
// fdatasyncs at 1×1.
func (s *clusterSection) measureShape(o *options, c *clusterLoad, sh shape, dir string) error {
	c.drop()
	c.work = workload{connections: sh.Connections, depth: sh.Depth, lease: 250}
	ours := &contestant{id: clusterID, title: clusterTitle}
	all := []*contestant{ours}
	var peer load
	if _, err := exec.LookPath("etcd"); err == nil && sh == clusterShapes[0] {
		p, err := startEtcdIn(filepath.Join(dir, "etcd"))
		if err != nil {
			return err
		}
		defer p.stop()
		if peer, err = newEtcdLoad(p, sh.Connections, sh.Depth); err != nil {
			return err
		}
		defer peer.close()
		all = append(all, &contestant{id: etcdLock, title: "etcd, lease with txn and delete"})
	}
	before, err := c.counts()
	if err != nil {
		return err
	}
	settle, turn := 3*o.settle, 2*o.slice
	if sh.Connections*sh.Depth == 1 {
		turn *= 2
	}
	var followers []float64
	var bare histogram
	for range max(2, o.rounds) {
		if sh.Connections*sh.Depth == 1 {
			if err := syncs(dir, 40, &bare); err != nil {
				return err
			}
		}
		m, behind, err := c.run(settle, turn)
		if err != nil {
			return err
		}
		ours.slices = append(ours.slices, m)
		followers = append(followers, behind)
		if peer != nil {
			if m, err = peer.run(settle, turn); err != nil {
				return err
			}
			all[1].slices = append(all[1].slices, m)
		}
	}
	after, err := c.counts()
	if err != nil {
		return err
	}
	c.drop()
	ours.latency, c.latency = c.latency, histogram{}
	if peer != nil {
		all[1].latency.merge(peer.latencies())
		s.ByEtcd = ours.each(func(i int, m slice) float64 {
			return rate(m) / rate(all[1].slices[i])
		})
	}
	if bare.n > 0 {
		s.Fdatasync = bare.quantile(.5)
	}
	for i, f := range figuresOf(all, "") {
		row := clusterRow{Shape: sh, Figures: f}
		if i == 0 {
			row.Follower = spreadOf(followers)
			row.fromCounts(before, after, c.leader)
		}
		s.Rows = append(s.Rows, row)
	}
	return nil
}

func rate(m slice) float64 { return float64(m.pairs) / m.wall.Seconds() }

// fromCounts fills in what the nodes counted meanwhile. If the lead moved within,
// it is that of the last leader.
func (r *clusterRow) fromCounts(before, after []counts, leader int) {
	for i := range after {
		if p50 := after[i].fsyncSince(&before[i]); i == leader {
			r.Fsync = p50
		} else {
			r.Behind += p50 / float64(len(after)-1)
		}
	}
	d, took := after[leader], before[leader]
	if entries := d.entries - took.entries; entries > 0 {
		r.Entry = (d.releases - took.releases) / entries
		r.Entries = entries / d.at.Sub(took.at).Seconds()
	}
}

func (s *clusterSection) say(o *options) {
	o.say("cluster on %s, fdatasync %.0f µs, load average %.1f to %.1f, %d changes of the leader", s.FileSystem, s.Fdatasync, s.Load[0], s.Load[1], s.Moved)
	for _, r := range s.Rows {
		f := r.Figures
		o.say("  %-6v %-32s %8.0f/s [%.0f %.0f]  leader %.2f µs, follower %.2f µs a pair  p50 %.0f p99 %.0f µs  %.1f pairs an entry  fsync %.0f and %.0f µs",
			r.Shape, f.Title, f.Rate.Median, f.Rate.Min, f.Rate.Max, f.CPU.Median, r.Follower.Median, f.P50, f.P99, r.Entry, r.Fsync, r.Behind)
	}
	o.say("  by etcd %.2f [%.2f %.2f]", s.ByEtcd.Median, s.ByEtcd.Min, s.ByEtcd.Max)
}

// syncs measures n small appends to a preallocated file, as a log makes them, each
// with its fdatasync.
func syncs(dir string, n int, h *histogram) error {
	f, err := os.CreateTemp(dir, "fdatasync-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	_ = unix.Fallocate(int(f.Fd()), 0, 0, 1<<20) // as far as the file system can
	if err := f.Sync(); err != nil {
		return err
	}
	record := []byte(strings.Repeat("r", 200))
	for range n {
		start := time.Now()
		if _, err := f.Write(record); err != nil {
			return err
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return err
		}
		h.add(int64(time.Since(start)))
	}
	return nil
}

// fileSystem says what kind dir is on, for there are some that have no disk.
func fileSystem(dir string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return "unknown"
	}
	switch fs.Type {
	case unix.TMPFS_MAGIC:
		return "tmpfs (no disk at all)"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	}
	return fmt.Sprintf("file system %#x", fs.Type)
}

// loadAverage is that of the last minute.
func loadAverage() float64 {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	v, _ := strconv.ParseFloat(first, 64)
	return v
}
