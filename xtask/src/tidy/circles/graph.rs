//! Files and their imports, as a graph.

use std::collections::{BTreeMap, VecDeque};

/// An import: from which file, to which, and in which line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) line: usize,
}

#[derive(Debug)]
pub(crate) struct Graph {
    /// For each file the files that it imports, with the first line that does.
    arrows: Vec<BTreeMap<usize, usize>>,
}

impl Graph {
    pub(crate) fn new(files: usize, arrows: Vec<Arrow>) -> Graph {
        let mut graph = Graph {
            arrows: vec![BTreeMap::new(); files],
        };
        for arrow in arrows {
            let line = graph.arrows[arrow.from].entry(arrow.to);
            let line = line.or_insert(arrow.line);
            *line = arrow.line.min(*line);
        }
        graph
    }

    /// The sets of files that all lead to each other, with more than one file.
    pub(crate) fn circles(&self) -> Vec<Vec<usize>> {
        let files = 0..self.arrows.len();
        let reached: Vec<Vec<Option<usize>>> = files.clone().map(|from| self.reach(from)).collect();
        let mut circles = Vec::new();
        for file in files.clone() {
            let both = |&other: &usize| {
                other == file || reached[file][other].is_some() && reached[other][file].is_some()
            };
            let circle: Vec<_> = files.clone().filter(both).collect();
            if circle.len() > 1 && circle[0] == file {
                circles.push(circle);
            }
        }
        circles
    }

    pub(crate) fn arrows(&self, file: usize) -> impl Iterator<Item = (usize, usize)> {
        self.arrows[file].iter().map(|(&to, &line)| (to, line))
    }

    /// The shortest way from one file to another, both included.
    pub(crate) fn path(&self, from: usize, to: usize) -> Vec<usize> {
        let before = self.reach(from);
        let mut path = vec![to];
        while path[path.len() - 1] != from {
            match before[path[path.len() - 1]] {
                Some(file) => path.push(file),
                None => break,
            }
        }
        path.reverse();
        path
    }

    /// For each file that `from` leads to, the file before it.
    fn reach(&self, from: usize) -> Vec<Option<usize>> {
        let mut before = vec![None; self.arrows.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(file) = queue.pop_front() {
            for &next in self.arrows[file].keys() {
                if before[next].is_none() {
                    before[next] = Some(file);
                    queue.push_back(next);
                }
            }
        }
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circles_are_separate_and_paths_are_short() {
        let arrow = |(from, to)| Arrow { from, to, line: 1 };
        let arrows = [
            (0, 1),
            (1, 2),
            (2, 0),
            (1, 0),
            (2, 3),
            (3, 4),
            (4, 3),
            (4, 5),
        ]
        .map(arrow);
        let graph = Graph::new(6, arrows.into());
        assert_eq!(graph.circles(), [vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(graph.path(0, 4), [0, 1, 2, 3, 4]);
        assert_eq!(graph.path(1, 0), [1, 0]);
    }
}
