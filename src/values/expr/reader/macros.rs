//! What cel's macros stand for (`list.exists(x, …)` is a loop over the list), and maps; numbered in the order in which cel numbers them.

use cel::IdedExpr;
use cel::common::ast::operators as op;
use cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue, MapEntryExpr, MapExpr,
};

use super::{Reader, call};

/// The variable in which cel gathers what a loop comes to; no name of anybody's begins so.
const RESULT: &str = "@result";

/// What differs between loops.
struct Loop {
    start: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
}

impl Reader<'_> {
    /// A macro of a list's as its loop; `None` for one that is left to cel, and where the arguments are none of its.
    pub(super) fn looped(&mut self, name: &str, list: IdedExpr, mut args: Vec<IdedExpr>) -> Option<IdedExpr> {
        let body = args.pop()?;
        let chosen = if args.len() == 2 { args.pop() } else { None };
        let [variable] = <[IdedExpr; 1]>::try_from(args).ok()?;
        let Expr::Ident(iter_var) = variable.expr.clone() else { return None };
        let Loop { start, condition, step } = match (name, chosen) {
            (op::EXISTS, None) => self.exists(body),
            (op::ALL, None) => self.all(body),
            (op::FILTER, None) => self.gathered(variable, Some(body)),
            (op::MAP, chosen) => self.gathered(body, chosen),
            _ => return None,
        };
        let result = self.result();
        let comprehension = ComprehensionExpr {
            iter_range: list,
            iter_var,
            iter_var2: None,
            accu_var: RESULT.to_owned(),
            accu_init: start,
            loop_cond: condition,
            loop_step: step,
            result,
        };
        Some(self.node(Expr::Comprehension(Box::new(comprehension))))
    }

    /// Until one holds.
    fn exists(&mut self, body: IdedExpr) -> Loop {
        let start = self.boolean(false);
        let found = self.result();
        let not = self.calling(op::LOGICAL_NOT, vec![found]);
        let condition = self.calling(op::NOT_STRICTLY_FALSE, vec![not]);
        let before = self.result();
        let step = self.calling(op::LOGICAL_OR, vec![before, body]);
        Loop { start, condition, step }
    }

    /// Until one does not hold.
    fn all(&mut self, body: IdedExpr) -> Loop {
        let start = self.boolean(true);
        let held = self.result();
        let condition = self.calling(op::NOT_STRICTLY_FALSE, vec![held]);
        let before = self.result();
        let step = self.calling(op::LOGICAL_AND, vec![before, body]);
        Loop { start, condition, step }
    }

    /// `item` of each, of those alone for which `chosen` holds.
    fn gathered(&mut self, item: IdedExpr, chosen: Option<IdedExpr>) -> Loop {
        let start = self.node(Expr::List(ListExpr::new(Vec::new())));
        let condition = self.boolean(true);
        let before = self.result();
        let item = self.node(Expr::List(ListExpr::new(vec![item])));
        let mut step = self.calling(op::ADD, vec![before, item]);
        if let Some(chosen) = chosen {
            let before = self.result();
            step = self.calling(op::CONDITIONAL, vec![chosen, step, before]);
        }
        Loop { start, condition, step }
    }

    /// A map, behind its first brace.
    pub(super) fn map(&mut self) -> Option<IdedExpr> {
        let id = self.next_id();
        let mut entries = Vec::new();
        while !self.takes("}") {
            if !entries.is_empty() {
                self.takes(",").then_some(())?;
            }
            // cel numbers the colon, and that before what stands on either side of it.
            let id = self.next_id();
            let key = self.expression()?;
            self.takes(":").then_some(())?;
            let value = self.expression()?;
            let entry = MapEntryExpr { key, value, optional: false };
            entries.push(IdedEntryExpr { id, expr: EntryExpr::MapEntry(entry) });
        }
        Some(IdedExpr { id, expr: Expr::Map(MapExpr { entries }) })
    }

    fn result(&mut self) -> IdedExpr {
        self.node(Expr::Ident(RESULT.to_owned()))
    }

    fn boolean(&mut self, value: bool) -> IdedExpr {
        self.node(Expr::Literal(LiteralValue::Boolean(value.into())))
    }

    fn calling(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        let id = self.next_id();
        call(id, name, args)
    }

    fn node(&mut self, expr: Expr) -> IdedExpr {
        IdedExpr { id: self.next_id(), expr }
    }
}
