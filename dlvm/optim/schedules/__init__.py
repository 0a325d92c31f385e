"""Schedules: functions of the step that give a learning rate."""
